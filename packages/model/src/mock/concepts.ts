import { CITIES, DISTRICTS } from './gazetteer.ts';
import { stem, whole } from './patterns.ts';

/** A number of rooms: as a word, as "2-к" or "2 кімн.", as "two-bedroom" or "2 rooms". */
function rooms(words: string, count: number, english: string): string {
  return String.raw`${words}|${count} ?-? ?(?:к(?!\p{L})|кімн|комн|room|bed|br(?!\p{L}))|${english}[- ](?:room|bed)`;
}

/** Words of the three languages that mean the same, as beginnings of folded words. */
const STEMS: [concept: string, words: string][] = [
  [
    'apartment',
    'квартир|кватир|апартамент|апартмент|кв(?!\\p{L})|flat|apartment|apt|condo|двушк|однушк|трешк|трьошк|studio|студі|студи',
  ],
  ['studio', 'studio|студі|студи|однушк|однокімнат|однокомнат|смарт'],
  ['one_room', rooms('однушк|однокімн|однокомн', 1, 'one')],
  ['two_rooms', rooms('двушк|двокімн|двухкомн', 2, 'two')],
  ['three_rooms', rooms('трешк|трьошк|трикімн|трехкомн', 3, 'three')],
  ['four_rooms', rooms('чотирикімн|четырехкомн', 4, 'four')],
  [
    'house',
    'будинок|будинку|будинки|дом(?!аш)|house|котедж|коттедж|cottage|таунхаус|townhouse|вілл|вилл|villa|дач',
  ],
  ['room', 'кімнат|комнат|room|bedroom|спальн'],
  ['land', 'ділянк|участ|земл|plot|land|сотк|соток'],
  [
    'commercial',
    'офіс|офис|office|комерц|коммерч|commercial|магазин|shop|retail|склад|warehouse|приміщен|помещен',
  ],
  ['garage', 'гараж|garage'],
  ['parking', 'паркінг|паркинг|парковк|паркуван|паркомісц|машиномісц|parking'],
  ['rent', 'оренд|аренд|зда[мюєн]|сда[мюе]|rent|lease|let(?!\\p{L})|зніму|сниму|винайм'],
  ['sale', 'прода|sale|sell|buy|куп'],
  ['daily', 'подобов|посуточн|добу|доба|сутк|daily|night|nightly|short'],
  ['long_term', 'довгостроков|долгосроч|тривал|длительн|long'],
  ['balcony', 'балкон|лоджі|лоджи|balcon|loggia'],
  ['terrace', 'терас|террас|terrace|patio'],
  ['furnished', 'мебл|мебел|furnish|furniture'],
  ['renovated', 'ремонт|renovat|refurbish'],
  ['new_building', 'новобуд|новостро|новий|новый|new'],
  ['elevator', 'ліфт|лифт|elevator|lift'],
  ['pets', 'тварин|животн|pet|собак|кішк|кошк|кот(?!\\p{L})|dog|cat(?!\\p{L})'],
  ['sea', 'мор[ея]|морем|пляж|sea|beach|ocean'],
  ['metro', 'метро|metro|subway'],
  ['centre', 'центр|center|centre|downtown'],
  ['kitchen', 'кухн|kitchen'],
  ['bathroom', 'ванн|санвуз|санузел|душ|bathroom|shower'],
  ['heating', 'опален|отоплен|котел|heating|boiler'],
  ['floor', 'поверх|поверс|этаж|етаж|floor|storey'],
  ['quiet', 'тих|спокій|спокой|quiet|calm'],
  ['cheap', 'дешев|недорог|бюджет|cheap|affordable|inexpensive'],
  ['luxury', 'люкс|елітн|элитн|преміум|премиум|luxury|premium|elite'],
  ['family', 'сімя|сімей|сімє|сімї|семей|семь|діт|дет|family|children|kids'],
  ['student', 'студент|student'],
  ['school', 'школ|садок|садик|детсад|school|kindergarten'],
  ['park', 'парк(?!ів|ов|ін|ин|ом|ув)|park(?!ing)|сквер'],
  ['garden', 'сад(?!ок|ик)|garden|yard|двор|подвір'],
  ['appliances', 'технік|техник|пральн|стиральн|холодильник|washing|fridge|appliance|dishwasher'],
  ['air_conditioning', 'кондиц|air-?con|conditioning'],
  ['internet', 'інтернет|интернет|internet|wi-?fi|вай-?фай'],
  ['generator', 'генератор|інвертор|инвертор|generator|inverter|backup'],
  ['price', 'цін|цен[аыу]|price|вартіст|стоимост'],
  ['owner', 'власник|хозя|собственник|owner'],
  ['commission', 'комісі|комисс|commission'],
];

const CONCEPTS = [
  ...STEMS.map(([concept, words]) => ({ concept, pattern: stem(words, 'gu') })),
  ...CITIES.map(([name, forms]) => ({
    concept: `city:${name}`,
    pattern: whole(forms, 'gu'),
  })),
  ...DISTRICTS.map(([name, forms]) => ({
    concept: `district:${name}`,
    pattern: whole(forms, 'gu'),
  })),
];

/** The concepts a folded text speaks of, each once. */
export function conceptsOf(folded: string): string[] {
  return CONCEPTS.filter(({ pattern }) => folded.search(pattern) >= 0).map(
    ({ concept }) => concept,
  );
}
