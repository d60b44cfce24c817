import { findPlaces } from './places.ts';
import { clean, fold, compileTable } from './text.ts';

/** Concepts with their keywords in Ukrainian, Russian and English, as beginnings of folded words. */
const CONCEPTS = compileTable(String.raw`
apartment: квартир|кватир|апартамент|апартмент|кв(?!\p{L})|flat|apartment|apt|condo|двушк|однушк|трешк|трьошк|studio|студі|студи
studio: studio|студі|студи|однушк|однокімнат|однокомнат|смарт
one_room: однушк|однокімн|однокомн|1 ?-? ?(?:к(?!\p{L})|кімн|комн|room|bed|br(?!\p{L}))|one[- ](?:room|bed)
two_rooms: двушк|двокімн|двухкомн|2 ?-? ?(?:к(?!\p{L})|кімн|комн|room|bed|br(?!\p{L}))|two[- ](?:room|bed)
three_rooms: трешк|трьошк|трикімн|трехкомн|3 ?-? ?(?:к(?!\p{L})|кімн|комн|room|bed|br(?!\p{L}))|three[- ](?:room|bed)
four_rooms: чотирикімн|четырехкомн|4 ?-? ?(?:к(?!\p{L})|кімн|комн|room|bed|br(?!\p{L}))|four[- ](?:room|bed)
house: будинок|будинку|будинки|дом(?!аш)|house|котедж|коттедж|cottage|таунхаус|townhouse|вілл|вилл|villa|дач
room: кімнат|комнат|room|bedroom|спальн
land: ділянк|участ|земл|plot|land|сотк|соток
commercial: офіс|офис|office|комерц|коммерч|commercial|магазин|shop|retail|склад|warehouse|приміщен|помещен
garage: гараж|garage
parking: паркінг|паркинг|парковк|паркуван|паркомісц|машиномісц|parking
rent: оренд|аренд|зда[мюєн]|сда[мюе]|rent|lease|let(?!\p{L})|зніму|сниму|винайм
sale: прода|sale|sell|buy|куп
daily: подобов|посуточн|добу|доба|сутк|daily|night|nightly|short
long_term: довгостроков|долгосроч|тривал|длительн|long
balcony: балкон|лоджі|лоджи|balcon|loggia
terrace: терас|террас|terrace|patio
furnished: мебл|мебел|furnish|furniture
renovated: ремонт|renovat|refurbish
new_building: новобуд|новостро|новий|новый|new
elevator: ліфт|лифт|elevator|lift
pets: тварин|животн|pet|собак|кішк|кошк|кот(?!\p{L})|dog|cat(?!\p{L})
sea: мор[ея]|морем|пляж|sea|beach|ocean
metro: метро|metro|subway
centre: центр|center|centre|downtown
kitchen: кухн|kitchen
bathroom: ванн|санвуз|санузел|душ|bathroom|shower
heating: опален|отоплен|котел|heating|boiler
floor: поверх|поверс|этаж|етаж|floor|storey
quiet: тих|спокій|спокой|quiet|calm
cheap: дешев|недорог|бюджет|cheap|affordable|inexpensive
luxury: люкс|елітн|элитн|преміум|премиум|luxury|premium|elite
family: сімя|сімей|сімє|сімї|семей|семь|діт|дет|family|children|kids
student: студент|student
school: школ|садок|садик|детсад|school|kindergarten
park: парк(?!ів|ов|ін|ин|ом|ув)|park(?!ing)|сквер
garden: сад(?!ок|ик)|garden|yard|двор|подвір
appliances: технік|техник|пральн|стиральн|холодильник|washing|fridge|appliance|dishwasher
air_conditioning: кондиц|air-?con|conditioning
internet: інтернет|интернет|internet|wi-?fi|вай-?фай
generator: генератор|інвертор|инвертор|generator|inverter|backup
price: цін|цен[аыу]|price|вартіст|стоимост
owner: власник|хозя|собственник|owner
commission: комісі|комисс|commission
`);

const MAX_TEXT = 20_000;
const MAX_WORDS = 3_000;
const GRAM = 3;

/**
 * Weight of each kind of token in a vector, independent of the length of the text. Concepts weigh more than words, and
 * words more than trigrams.
 */
const TOKEN_WEIGHTS = { concept: 0.8, word: 0.5, gram: 0.33 };

/** Matches concepts for the place, the rooms, the deal and the property type. They weigh more than other concepts. */
const KEY_CONCEPT =
  /^(?:city|district):|_rooms?$|^(?:rent|sale|daily|house|land|garage|commercial)$/;
const KEY_WEIGHT = 2;

const FNV_OFFSET = 0x811c9dc5;
const FNV_PRIME = 0x01000193;

/** Returns the 32-bit FNV-1a hash of the UTF-16 code units of a text. */
function fnv1a(text: string): number {
  let hash = FNV_OFFSET;
  for (let at = 0; at < text.length; at += 1) {
    hash = Math.imul(hash ^ text.charCodeAt(at), FNV_PRIME);
  }
  // The low bits of FNV-1a are poorly distributed for short inputs, so the high bits are mixed in.
  return (hash ^ (hash >>> 15)) >>> 0;
}

function splitIntoTrigrams(word: string): string[] {
  const padded = `<${word}>`;
  const grams: string[] = [];
  for (let at = 0; at + GRAM <= padded.length; at += 1) grams.push(padded.slice(at, at + GRAM));
  return grams;
}

/** Adds hashed tokens to a vector. The sum of their squared weights is `share` squared. */
function addTokens(vector: number[], tokens: Map<string, number>, share: number): void {
  const length = Math.hypot(...tokens.values());
  for (const [token, weight] of tokens) {
    const at = fnv1a(token) % vector.length;
    const sign = fnv1a(`±${token}`) & 1 ? 1 : -1;
    vector[at] = (vector[at] ?? 0) + (sign * weight * share) / length;
  }
}

function normalizeVector(vector: number[]): number[] {
  const length = Math.hypot(...vector);
  // A text without words, or whose words cancel out, has no direction, so it gets a fixed one.
  if (length < Number.EPSILON) return vector.map((_, at) => (at === 0 ? 1 : 0));
  return vector.map((value) => value / length);
}

/** Returns the weight of each token: the square root of its number of occurrences. */
function weighTokens(tokens: string[]): Map<string, number> {
  const counts = new Map<string, number>();
  for (const token of tokens) counts.set(token, (counts.get(token) ?? 0) + 1);
  return new Map([...counts].map(([token, count]) => [token, Math.sqrt(count)]));
}

/**
 * Embeds a text so that related texts have a high cosine similarity. The vector combines hashed words, character
 * trigrams, and concepts shared by Ukrainian, Russian and English. Equal texts get equal vectors.
 * @param dimensions Number of elements of the vector.
 * @returns A vector of length 1.
 * @throws RangeError when `dimensions` is not a positive whole number.
 */
export function embedText(text: string, dimensions: number): number[] {
  if (!Number.isInteger(dimensions) || dimensions < 1) {
    throw new RangeError(`dimensions must be a positive whole number, not ${dimensions}.`);
  }
  const folded = fold(clean(text, MAX_TEXT));
  const words = (folded.match(/[\p{L}\p{N}]+/gu) ?? []).slice(0, MAX_WORDS);
  const named = CONCEPTS.filter(([, pattern]) => folded.search(pattern) >= 0).map(([name]) => name);
  const concepts = [...named, ...findPlaces(folded)].map((concept): [string, number] => [
    `concept:${concept}`,
    KEY_CONCEPT.test(concept) ? KEY_WEIGHT : 1,
  ]);
  const vector = Array.from({ length: dimensions }, () => 0);
  addTokens(vector, new Map(concepts), TOKEN_WEIGHTS.concept);
  addTokens(vector, weighTokens(words.map((word) => `word:${word}`)), TOKEN_WEIGHTS.word);
  addTokens(
    vector,
    weighTokens(words.flatMap(splitIntoTrigrams).map((gram) => `gram:${gram}`)),
    TOKEN_WEIGHTS.gram,
  );
  return normalizeVector(vector);
}
