import { MAX_COPY_DISTANCE, hammingDistance } from '../images/decode.ts';
import type { Reason, ReasonName } from '../tables.ts';
import { normaliseText } from '../text.ts';
import type { ComparedListing, ComparedImage } from './candidates.ts';
import { AREA_RATIO, PRICE_RATIO, TEXT_LENGTH } from './candidates.ts';

/** The kinds of reasons, in the order in which answers have them. */
export const REASONS = [
  'text',
  'place',
  'area',
  'rooms',
  'price',
  'pictures',
  'seller',
] as const satisfies readonly ReasonName[];

/** How likely two listings are the same property: the score is the sum of the parts. */
export type Comparison = { score: number; reasons: Reason[] };

/**
 * The lowest score of the same property. On the labelled pairs of the golden set it has no false positives, with some
 * margin on both sides.
 */
export const MIN_DUPLICATE_SCORE = 0.56;

/** Sites blur coordinates, and some use the centre of a district. */
const MAX_METRES = 3000;

/** Facts of which a property has only one. */
const ONE_EACH = ['deal_type', 'city_key', 'rooms', 'floor'] as const;

/** Tells whether two listings have facts that cannot be true of one property. */
function isContradiction(one: ComparedListing, other: ComparedListing): boolean {
  return (
    ONE_EACH.some((fact) => differ(one[fact], other[fact])) ||
    isOtherArea(one.area_total, other.area_total) ||
    (distanceMetres(one, other) ?? 0) > MAX_METRES
  );
}

function differ(one: string | number | null, other: string | number | null): boolean {
  return one !== null && other !== null && one !== other;
}

function isOtherArea(one: number | null, other: number | null): boolean {
  if (one === null || other === null || one === 0 || other === 0) return false;
  const isRounded = Math.abs(one - other) < 1;
  return !isRounded && Math.max(one, other) / Math.min(one, other) > AREA_RATIO;
}

type Point = { latitude: number | null; longitude: number | null };

const METRES_PER_DEGREE = 111_320;

/**
 * Returns the distance of two points in metres, within a per cent over a few kilometres; undefined where one is unknown.
 */
function distanceMetres(one: Point, other: Point): number | undefined {
  const { latitude: lat1, longitude: lon1 } = one;
  const { latitude: lat2, longitude: lon2 } = other;
  if (lat1 === null || lon1 === null || lat2 === null || lon2 === null) return undefined;
  const middle = ((lat1 + lat2) / 2) * (Math.PI / 180);
  const east = (lon1 - lon2) * Math.cos(middle);
  return METRES_PER_DEGREE * Math.hypot(lat1 - lat2, east);
}

/** A part of the score, negative where it speaks against. */
type Part = { part: number; detail: string } | undefined;

/** Scores one kind of evidence. It is symmetric, and undefined where nothing is known. */
type Scorer = (one: ComparedListing, other: ComparedListing) => Part;

/** Copied texts are nearly equal. Templates of one seller are similar, so only almost equal texts of one seller count. */
const copiedText: Scorer = (one, other) => {
  const similarity = textSimilarity(one.text, other.text);
  if (similarity === undefined) return undefined;
  const from = haveOneSeller(one, other) ? 0.85 : 0.4;
  const part = 0.45 * Math.max(0, (similarity - from) / (1 - from));
  return { part, detail: `${Math.round(similarity * 100)} % of the text` };
};

/** The address where both have one, else the coordinates, else the district. */
const place: Scorer = (one, other) =>
  byAddress(one, other) ?? byDistance(one, other) ?? byDistrict(one, other);

function byAddress(one: ComparedListing, other: ComparedListing): Part {
  if (one.address === null || other.address === null) return undefined;
  const [a, b] = [parseAddress(one.address, one.city), parseAddress(other.address, other.city)];
  if (a.street.size === 0 || b.street.size === 0) return undefined;
  if (!isSameStreet(a, b)) return { part: -0.35, detail: 'another street' };
  if (a.house === undefined || b.house === undefined) return { part: 0.1, detail: 'same street' };
  return a.house === b.house
    ? { part: 0.2, detail: 'same building' }
    : { part: -0.4, detail: 'another building of the street' };
}

function byDistance(one: ComparedListing, other: ComparedListing): Part {
  const metres = distanceMetres(one, other);
  if (metres === undefined) return undefined;
  const detail = `${Math.round(metres)} m apart`;
  if (metres <= 30) return { part: 0.15, detail };
  if (metres <= 200) return { part: 0.08, detail };
  return metres <= 1000 ? undefined : { part: -0.3, detail };
}

function byDistrict(one: ComparedListing, other: ComparedListing): Part {
  const [a, b] = [one.district, other.district].map((name) => normaliseText(name ?? ''));
  if (a === undefined || b === undefined || a === '' || b === '') return undefined;
  // "Шевченківський" and "Шевченківський район" are one.
  return a.includes(b) || b.includes(a)
    ? { part: 0.05, detail: 'same district' }
    : { part: -0.1, detail: 'another district' };
}

/** The same area to the decimal says more than the same whole number of metres. */
const area: Scorer = ({ area_total: one }, { area_total: other }) => {
  if (one === null || other === null) return undefined;
  // Areas have two decimals, and differences of such numbers many more.
  const difference = Number(Math.abs(one - other).toFixed(2));
  const arePrecise = !Number.isInteger(one) && !Number.isInteger(other);
  if (difference === 0) return { part: arePrecise ? 0.2 : 0.12, detail: `both ${one} m²` };
  const detail = `${Math.min(one, other)} and ${Math.max(one, other)} m²`;
  // One of them was rounded; where both are precise they are of two flats.
  if (!arePrecise) return { part: difference < 1 ? 0.1 : 0.02, detail };
  return { part: difference <= 0.2 ? 0.1 : -0.2, detail };
};

/** Rooms, floor and the building's height. Others are contradictions. */
const rooms: Scorer = (one, other) => {
  const same: string[] = [];
  let part = 0;
  if (one.rooms !== null && one.rooms === other.rooms) {
    part += 0.05;
    same.push(`${one.rooms} rooms`);
  }
  if (one.floor !== null && one.floor === other.floor) {
    part += 0.1;
    same.push(`floor ${one.floor}`);
  }
  if (one.floors_total !== null && other.floors_total !== null) {
    const isSame = one.floors_total === other.floors_total;
    part += isSame ? 0.05 : -0.15;
    same.push(isSame ? `of ${one.floors_total}` : 'in buildings of different height');
  }
  return same.length === 0 ? undefined : { part, detail: same.join(', ') };
};

/** Agencies ask different prices for one flat, but not very different ones. */
const price: Scorer = (one, other) => {
  if (one.price === null || other.price === null || one.price === 0 || other.price === 0) {
    return undefined;
  }
  // Exchange rates are unknown here.
  if (one.currency !== other.currency) return undefined;
  const [low, high] = [Math.min(one.price, other.price), Math.max(one.price, other.price)];
  const ratio = high / low;
  const detail = ratio === 1 ? 'same price' : `prices ${Math.round((ratio - 1) * 100)} % apart`;
  if (ratio <= 1.01) return { part: 0.1, detail };
  if (ratio <= 1.12) return { part: 0.06, detail };
  return ratio <= PRICE_RATIO ? undefined : { part: -0.2, detail };
};

/**
 * Images that both have. A single one may show the building or a logo, so it counts less, and the less the more images
 * only one listing has. Mostly different images of one seller are another property.
 */
const pictures: Scorer = (one, other) => {
  const fewest = Math.min(one.images.length, other.images.length);
  if (fewest === 0) return undefined;
  const common = countCommon(one.images, other.images);
  const share = common / fewest;
  if (share < 0.5 && fewest >= 3 && haveOneSeller(one, other)) {
    return { part: -0.2, detail: `the same seller, and ${common} of ${fewest} pictures` };
  }
  if (common === 0) return undefined;
  const part = common === 1 ? 0.25 * share : 0.45 * Math.min(1, 1.5 * share);
  return { part, detail: `${common} of ${fewest} pictures` };
};

/** Counts the images that both have, each once. */
function countCommon(one: readonly ComparedImage[], other: readonly ComparedImage[]): number {
  return Math.min(
    one.filter((image) => hasCopy(other, image)).length,
    other.filter((image) => hasCopy(one, image)).length,
  );
}

function hasCopy(set: readonly ComparedImage[], image: ComparedImage): boolean {
  return set.some((candidate) => isCopy(candidate, image));
}

function isCopy(one: ComparedImage, other: ComparedImage): boolean {
  if (one.sha256 === other.sha256) return true;
  // Images of one colour all look alike.
  if (!one.fingerprint || !other.fingerprint) return false;
  return hammingDistance(one.fingerprint, other.fingerprint) <= MAX_COPY_DISTANCE;
}

/** A seller may offer many properties, so a common telephone says little. */
const seller: Scorer = (one, other) =>
  haveOneSeller(one, other) ? { part: 0.08, detail: 'same telephone' } : undefined;

function haveOneSeller(one: ComparedListing, other: ComparedListing): boolean {
  const numbers = new Set(one.phones.map(telephone));
  numbers.delete('');
  return other.phones.some((phone) => numbers.has(telephone(phone)));
}

/** The digits that are equal with and without the country code. */
function telephone(phone: string): string {
  return phone.replaceAll(/\D/gu, '').slice(-9);
}

/** Words of addresses beside names and numbers, in Ukrainian, Russian and English. */
const KINDS = new Set(
  [
    'вулиця вул ул улица проспект просп пр пркт бульвар бульв бул площа площадь пл провулок пров',
    'переулок пер шосе шоссе набережна набережная наб узвіз будинок буд дом д б корпус корп к',
    'місто м город г street st avenue ave road rd lane ln building bldg',
  ]
    .join(' ')
    .split(' '),
);

/** Words before the number of a flat, which is not the building's. */
const FLAT = new Set(['кв', 'квартира', 'flat', 'apt', 'apartment', 'офіс', 'офис', 'office']);

/** The words of a street and the number of a building, where they are known. */
type Address = { street: ReadonlySet<string>; house: string | undefined };

/** Parses an address: `вул. Івана Франка, 12-А, кв. 7` is the street `івана франка` and the house `12а`. */
function parseAddress(text: string, city: string | null): Address {
  const cityWords = new Set(normaliseText(city ?? '').split(' '));
  const words = normaliseText(text).split(' ');
  const street = new Set<string>();
  const numbers: string[] = [];
  for (const [nth, word] of words.entries()) {
    const before = words[nth - 1] ?? '';
    if (/^\d/u.test(word)) {
      if (!FLAT.has(before)) numbers.push(word);
    } else if (word.length === 1 && /^\d+$/u.test(before) && numbers.at(-1) === before) {
      numbers.splice(-1, 1, before + word);
    } else if (word !== '' && !KINDS.has(word) && !FLAT.has(word) && !cityWords.has(word)) {
      street.add(word);
    }
  }
  // The building's number is the last one: numbers of streets come first.
  return { street, house: numbers.at(-1) };
}

/** Tells whether two streets may be the same: `франка` and `івана франка` may. */
function isSameStreet(one: Address, other: Address): boolean {
  const [few, many] = [one.street, other.street].toSorted((a, b) => a.size - b.size);
  return few !== undefined && many !== undefined && few.size > 0 && few.isSubsetOf(many);
}

/** Texts with fewer pairs of words are alike by chance. */
const MIN_PAIRS = 8;

/**
 * Returns the similarity of two normalised texts from 0 to 1: the share of their pairs of neighbouring words that both
 * have (Dice's coefficient). Undefined where one is too short.
 */
function textSimilarity(one: string, other: string): number | undefined {
  const [pairs, others] = [wordPairs(one), wordPairs(other)];
  if (Math.min(pairs.size, others.size) < MIN_PAIRS) return undefined;
  return (2 * pairs.intersection(others).size) / (pairs.size + others.size);
}

function wordPairs(text: string): Set<string> {
  const words = text.slice(0, TEXT_LENGTH).split(' ');
  return new Set(words.slice(1).map((word, nth) => `${words[nth]} ${word}`));
}

const SCORERS = { text: copiedText, place, area, rooms, price, pictures, seller } satisfies Record<
  ReasonName,
  Scorer
>;

/**
 * Compares two listings. Contradictions, such as sale and rent, or the third floor and the fifth, outweigh everything
 * else. It is symmetric.
 * @returns The score from 0 to 1 and its reasons; undefined for a contradiction.
 */
export function compare(one: ComparedListing, other: ComparedListing): Comparison | undefined {
  if (isContradiction(one, other)) return undefined;
  const reasons = REASONS.flatMap((reason): Reason[] => {
    const found = SCORERS[reason](one, other);
    if (found === undefined || found.part === 0) return [];
    return [{ reason, part: round(found.part), detail: found.detail }];
  });
  const sum = reasons.reduce((total, { part }) => total + part, 0);
  return { score: round(Math.min(1, Math.max(0, sum))), reasons };
}

/** Scores are stored, shown and compared with three decimals. */
function round(value: number): number {
  return Number(value.toFixed(3));
}
