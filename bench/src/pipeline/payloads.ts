/** A payload as a source sends it. */
export type Payload = { source_slug: string; external_id: string; description: string } & Record<
  string,
  unknown
>;

const CITIES = [
  'Львові',
  'Києві',
  'Одесі',
  'Харкові',
  'Дніпрі',
  'Луцьку',
  'Тернополі',
  'Чернівцях',
];
const STREETS = [
  'Садова',
  'Зелена',
  'Героїв',
  'Степова',
  'Лісова',
  'Озерна',
  'Київська',
  'Шкільна',
];
const ROOMS = ['однокімнатну', 'двокімнатну', 'трикімнатну', 'чотирикімнатну'];
const MORE = [
  'Євроремонт, меблі, побутова техніка.',
  'Поруч школа, дитячий садок і зупинка.',
  'Будинок цегляний, є ліфт і підземний паркінг.',
  'Без комісії, документи готові до продажу.',
  'Індивідуальне опалення, лічильники, балкон засклений.',
  'Тихий двір, охорона, дитячий майданчик.',
  'Вікна виходять на парк, світла сторона.',
];

/** Listings that differ in text, price and size; equal seeds give equal listings. */
export function makePayloads(count: number, seed: number): Payload[] {
  const random = mulberry32(seed);
  const pick = <Item>(items: readonly Item[]): Item =>
    items[Math.floor(random() * items.length)] as Item;
  return Array.from({ length: count }, (_, nth) => {
    const [area, floors] = [30 + Math.floor(random() * 120), 5 + Math.floor(random() * 20)];
    const price = 20_000 + Math.floor(random() * 180_000);
    const floor = 1 + Math.floor(random() * floors);
    const sentences = [
      `Продам ${pick(ROOMS)} квартиру у ${pick(CITIES)}, вул. ${pick(STREETS)}, ${nth}.`,
      `Площа ${area} м², ${floor} поверх з ${floors}. Ціна ${price} дол.`,
      ...Array.from({ length: 2 + Math.floor(random() * 6) }, () => pick(MORE)),
    ];
    return {
      source_slug: `source-${nth % 20}`,
      external_id: `flat-${nth}`,
      description: sentences.join(' '),
    };
  });
}

/** Tommy Ettinger's small generator of 32 bits: numbers from 0 up to, but not including, 1. */
function mulberry32(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}
