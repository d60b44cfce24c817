import { createLatinKey } from '../places/transliteration.ts';
import { normalizeText } from '../text.ts';

/** Kinds of property, as listings, filters and the model's schema name them. */
export const PROPERTY_TYPES = [
  'apartment',
  'house',
  'room',
  'land',
  'commercial',
  'garage',
] as const;

export type PropertyType = (typeof PROPERTY_TYPES)[number];

/** Words for each kind in English, Ukrainian and Russian. `*` stands for any ending. */
const WORDS: Record<PropertyType, string> = {
  apartment: `apartment* appartment* apartement* apt apts flat flats condo* studio* studia penthouse* loft lofts maisonette*
    квартир* кв кварт апартамент* апартмент* апарт апарти студія студії студію студия студии студию пентхаус* пентхауз*
    лофт* малосім* малосем* гостинка гостинки гостинку полуторка полуторку півторка півторку хрущовк* хрущевк* однушк*
    двушк* двошк* трешк* трьошк* новобудов* новострой*`,
  house: `house houses home homes cottage* villa villas townhouse* townhome* duplex* bungalow* dacha dachas mansion* chalet*
    будинок будинк* будиноч* дім доми домів дом дома дому доме домов домик домики домоволод* котедж* коттедж* таунхаус*
    таунхауз* дуплекс* дача дачі дачу дач дачи даче вілла вілли віллу вилла виллы виллу особняк* садиба садиби садибу
    усадьба усадьбы усадьбу хата хати хату хатин* хутір полдома півбудинк* напівбудин* шале бунгало`,
  room: `room rooms dorm* кімната кімнати кімнату кімнаті кімнат комната комнаты комнату комнате комнат койко* ліжко*
    гуртожит* общежит* підселен* подселен*`,
  land: `land lands plot plots acreage farmland ділянк* участок участк* земля землі землю земли земельн* соток сотки`,
  commercial: `commercial* office* shop shops store stores retail* warehouse* hotel* hostel* cafe* restaurant* showroom*
    workshop* coworking* business* industrial* building* premises офіс* офис* приміщен* помещен* магазин* склад складу
    склади склады складськ* складск* комерц* комерційн* коммерч* нежитл* нежил* ресторан* кафе кавярн* салон* шоурум*
    готел* отел* гостиниц* хостел* пансіонат* пансионат* будівл* здание здания зданий ангар* виробнич* виробництв*
    производств* торгов* торгівел* павільйон* павильон* кіоск* киоск* бізнес* бизнес* цех цеху`,
  garage: `garage* parking* carport* гараж* паркінг* паркинг* паркомісц* паркомест* паркомест* парковк* парковоч* паркув*
    парко машиномісц* машиномест* машино автомісц* бокс бокси боксы`,
};

/** Phrases whose first word is a word for another kind. */
const PHRASES: Readonly<Record<string, PropertyType>> = {
  'building plot': 'land',
  'building land': 'land',
  'building site': 'land',
  'house plot': 'land',
  'office building': 'commercial',
};

/** "Двокімнатна", "2-к" and "2 bedrooms" mean an apartment if no other word names a kind. */
const ROOM_COUNT_PATTERN =
  /(?:кімн|комн)(?:атн\p{L}*)?(?!\p{L})|^\d ?(?:к|k|br|bedrooms?)(?!\p{L})/u;

/** Length of the shortest beginning in `WORDS`. */
const MIN_BEGINNING_LENGTH = 4;

type Vocabulary = { words: Map<string, PropertyType>; beginnings: Map<string, PropertyType> };

const emptyVocabulary = (): Vocabulary => ({ words: new Map(), beginnings: new Map() });

/** Words as written, and the Latin spellings of the Cyrillic ones. */
const VOCABULARY = emptyVocabulary();
const LATIN_VOCABULARY = emptyVocabulary();

for (const type of PROPERTY_TYPES) {
  for (const entry of WORDS[type].split(/\s+/)) {
    const table = entry.endsWith('*') ? 'beginnings' : 'words';
    const word = entry.replace('*', '');
    VOCABULARY[table].set(word, type);
    if (!/\p{Script=Cyrillic}/u.test(word)) continue;
    for (const language of ['uk', 'ru'] as const) {
      LATIN_VOCABULARY[table].set(createLatinKey(word, language), type);
    }
  }
}

/**
 * Returns the kind of property that a source, a model or a filter names, such as "apartment" for "Flat", "1-кімн. кв."
 * and "kvartyra". The first word that names a kind decides.
 * @returns Undefined if no word names a kind.
 */
export function findPropertyType(text: string): PropertyType | undefined {
  const normalizedText = normalizeText(text);
  for (const [phrase, type] of Object.entries(PHRASES)) {
    if (normalizedText.includes(phrase)) return type;
  }
  for (const word of normalizedText.split(' ')) {
    const type = lookUp(word, VOCABULARY) ?? lookUp(createLatinKey(word), LATIN_VOCABULARY);
    if (type !== undefined) return type;
  }
  return ROOM_COUNT_PATTERN.test(normalizedText) ? 'apartment' : undefined;
}

/** Returns the kinds of property with a word that begins with a text, or is one. */
export function findPropertyTypesByPrefix(text: string): PropertyType[] {
  const prefix = normalizeText(text);
  const isPrefix = ([word]: [string, PropertyType]) => word.startsWith(prefix);
  const types = [...VOCABULARY.words, ...VOCABULARY.beginnings]
    .filter(isPrefix)
    .map(([, type]) => type);
  const namedType = findPropertyType(text);
  return [...new Set(namedType === undefined ? types : [namedType, ...types])];
}

function lookUp(word: string, { words, beginnings }: Vocabulary): PropertyType | undefined {
  const type = words.get(word);
  if (type !== undefined) return type;
  for (let length = word.length; length >= MIN_BEGINNING_LENGTH; length -= 1) {
    const typeOfBeginning = beginnings.get(word.slice(0, length));
    if (typeOfBeginning !== undefined) return typeOfBeginning;
  }
  return undefined;
}
