import { MAX_COPY_DISTANCE, hammingDistance } from '../images/decode.ts';
import type { Reason, ReasonName } from '../tables.ts';
import { normaliseText } from '../text.ts';
import type { ComparedListing, ComparedImage } from './candidates.ts';
import { AREA_RATIO, PRICE_RATIO, TEXT_LENGTH } from './candidates.ts';

/** Kinds of reasons, in the order of API responses. */
export const REASONS = [
  'text',
  'place',
  'area',
  'rooms',
  'price',
  'pictures',
  'seller',
] as const satisfies readonly ReasonName[];

/** Likelihood that two listings offer the same property. The score is the sum of the parts. */
export type Comparison = { score: number; reasons: Reason[] };

/**
 * Minimum score of a duplicate. It yields no false positives on the labelled pairs of the golden set, with a margin on
 * both sides.
 */
export const MIN_DUPLICATE_SCORE = 0.56;

/** Parts of the score by finding. A part of texts or images is the maximum, which a smaller share reduces. */
const WEIGHTS = {
  copiedText: 0.45,
  sameStreet: 0.1,
  otherStreet: -0.35,
  sameBuilding: 0.2,
  otherBuilding: -0.4,
  within30Metres: 0.15,
  within200Metres: 0.08,
  beyond1000Metres: -0.3,
  sameDistrict: 0.05,
  otherDistrict: -0.1,
  samePreciseArea: 0.2,
  closePreciseArea: 0.1,
  otherPreciseArea: -0.2,
  sameRoundedArea: 0.12,
  closeRoundedArea: 0.1,
  similarRoundedArea: 0.02,
  sameRooms: 0.05,
  sameFloor: 0.1,
  sameHeight: 0.05,
  otherHeight: -0.15,
  samePrice: 0.1,
  similarPrice: 0.06,
  otherPrice: -0.2,
  oneImage: 0.25,
  severalImages: 0.45,
  otherImages: -0.2,
  sameSeller: 0.08,
} as const;

/** Maximum distance between two listings of the same property. It is large because sites blur coordinates. */
const MAX_METRES = 3000;

/** Facts that must be equal for the same property. */
const ONE_EACH = ['deal_type', 'city_key', 'rooms', 'floor'] as const;

/** Returns whether two listings have facts that cannot describe the same property. */
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
 * Returns the distance between two points in metres, accurate to one per cent over a few kilometres; undefined if a
 * point is unknown.
 */
function distanceMetres(one: Point, other: Point): number | undefined {
  const { latitude: lat1, longitude: lon1 } = one;
  const { latitude: lat2, longitude: lon2 } = other;
  if (lat1 === null || lon1 === null || lat2 === null || lon2 === null) return undefined;
  const middle = ((lat1 + lat2) / 2) * (Math.PI / 180);
  const east = (lon1 - lon2) * Math.cos(middle);
  return METRES_PER_DEGREE * Math.hypot(lat1 - lat2, east);
}

/** Part of the score. It is negative if the evidence speaks against a duplicate. */
type Part = { part: number; detail: string } | undefined;

/** Scores one kind of evidence, regardless of the order of the listings. Returns undefined if nothing is known. */
type Scorer = (one: ComparedListing, other: ComparedListing) => Part;

/** Scores similar texts. Texts of the same seller share templates, so they must be almost equal to count. */
const copiedText: Scorer = (one, other) => {
  const similarity = textSimilarity(one.text, other.text);
  if (similarity === undefined) return undefined;
  const from = haveSameSeller(one, other) ? 0.85 : 0.4;
  const part = WEIGHTS.copiedText * Math.max(0, (similarity - from) / (1 - from));
  return { part, detail: `${Math.round(similarity * 100)} % of the text` };
};

/** Scores the location by address if both listings have one, otherwise by coordinates or district. */
const place: Scorer = (one, other) =>
  byAddress(one, other) ?? byDistance(one, other) ?? byDistrict(one, other);

function byAddress(one: ComparedListing, other: ComparedListing): Part {
  if (one.address === null || other.address === null) return undefined;
  const [a, b] = [parseAddress(one.address, one.city), parseAddress(other.address, other.city)];
  if (a.street.size === 0 || b.street.size === 0) return undefined;
  if (!isSameStreet(a, b)) return { part: WEIGHTS.otherStreet, detail: 'another street' };
  if (a.house === undefined || b.house === undefined)
    return { part: WEIGHTS.sameStreet, detail: 'same street' };
  return a.house === b.house
    ? { part: WEIGHTS.sameBuilding, detail: 'same building' }
    : { part: WEIGHTS.otherBuilding, detail: 'another building of the street' };
}

function byDistance(one: ComparedListing, other: ComparedListing): Part {
  const metres = distanceMetres(one, other);
  if (metres === undefined) return undefined;
  const detail = `${Math.round(metres)} m apart`;
  if (metres <= 30) return { part: WEIGHTS.within30Metres, detail };
  if (metres <= 200) return { part: WEIGHTS.within200Metres, detail };
  return metres <= 1000 ? undefined : { part: WEIGHTS.beyond1000Metres, detail };
}

function byDistrict(one: ComparedListing, other: ComparedListing): Part {
  const [a, b] = [one.district, other.district].map((name) => normaliseText(name ?? ''));
  if (a === undefined || b === undefined || a === '' || b === '') return undefined;
  // "Шевченківський" and "Шевченківський район" are the same district.
  return a.includes(b) || b.includes(a)
    ? { part: WEIGHTS.sameDistrict, detail: 'same district' }
    : { part: WEIGHTS.otherDistrict, detail: 'another district' };
}

/** Scores the total area. Equal decimals are stronger evidence than equal whole numbers. */
const area: Scorer = ({ area_total: one }, { area_total: other }) => {
  if (one === null || other === null) return undefined;
  // Round to two decimals to remove floating-point errors.
  const difference = Number(Math.abs(one - other).toFixed(2));
  const arePrecise = !Number.isInteger(one) && !Number.isInteger(other);
  if (difference === 0)
    return {
      part: arePrecise ? WEIGHTS.samePreciseArea : WEIGHTS.sameRoundedArea,
      detail: `both ${one} m²`,
    };
  const detail = `${Math.min(one, other)} and ${Math.max(one, other)} m²`;
  // If an area is a whole number, it was probably rounded. Two precise areas that differ belong to different flats.
  if (!arePrecise)
    return { part: difference < 1 ? WEIGHTS.closeRoundedArea : WEIGHTS.similarRoundedArea, detail };
  return { part: difference <= 0.2 ? WEIGHTS.closePreciseArea : WEIGHTS.otherPreciseArea, detail };
};

/** Scores equal rooms, floor and building height. Different rooms or floors are contradictions. */
const rooms: Scorer = (one, other) => {
  const same: string[] = [];
  let part = 0;
  if (one.rooms !== null && one.rooms === other.rooms) {
    part += WEIGHTS.sameRooms;
    same.push(`${one.rooms} rooms`);
  }
  if (one.floor !== null && one.floor === other.floor) {
    part += WEIGHTS.sameFloor;
    same.push(`floor ${one.floor}`);
  }
  if (one.floors_total !== null && other.floors_total !== null) {
    const isSame = one.floors_total === other.floors_total;
    part += isSame ? WEIGHTS.sameHeight : WEIGHTS.otherHeight;
    same.push(isSame ? `of ${one.floors_total}` : 'in buildings of different height');
  }
  return same.length === 0 ? undefined : { part, detail: same.join(', ') };
};

/** Scores similar prices, because agencies ask slightly different prices for the same flat. */
const price: Scorer = (one, other) => {
  if (one.price === null || other.price === null || one.price === 0 || other.price === 0) {
    return undefined;
  }
  // Exchange rates are unknown here.
  if (one.currency !== other.currency) return undefined;
  const [low, high] = [Math.min(one.price, other.price), Math.max(one.price, other.price)];
  const ratio = high / low;
  const detail = ratio === 1 ? 'same price' : `prices ${Math.round((ratio - 1) * 100)} % apart`;
  if (ratio <= 1.01) return { part: WEIGHTS.samePrice, detail };
  if (ratio <= 1.12) return { part: WEIGHTS.similarPrice, detail };
  return ratio <= PRICE_RATIO ? undefined : { part: WEIGHTS.otherPrice, detail };
};

/**
 * Scores shared images. A single shared image may be a logo or the building, so it counts less. Mostly different
 * images of the same seller indicate another property.
 */
const pictures: Scorer = (one, other) => {
  const fewest = Math.min(one.images.length, other.images.length);
  if (fewest === 0) return undefined;
  const common = countCommon(one.images, other.images);
  const share = common / fewest;
  if (share < 0.5 && fewest >= 3 && haveSameSeller(one, other)) {
    return {
      part: WEIGHTS.otherImages,
      detail: `the same seller, and ${common} of ${fewest} pictures`,
    };
  }
  if (common === 0) return undefined;
  const part =
    common === 1 ? WEIGHTS.oneImage * share : WEIGHTS.severalImages * Math.min(1, 1.5 * share);
  return { part, detail: `${common} of ${fewest} pictures` };
};

/** Counts the shared images, each one once. */
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
  // Blank images all have similar fingerprints.
  if (!one.fingerprint || !other.fingerprint) return false;
  return hammingDistance(one.fingerprint, other.fingerprint) <= MAX_COPY_DISTANCE;
}

/** Scores a shared telephone number. It is weak evidence, because a seller may offer many properties. */
const seller: Scorer = (one, other) =>
  haveSameSeller(one, other) ? { part: WEIGHTS.sameSeller, detail: 'same telephone' } : undefined;

function haveSameSeller(one: ComparedListing, other: ComparedListing): boolean {
  const numbers = new Set(one.phones.map(getPhoneKey));
  numbers.delete('');
  return other.phones.some((phone) => numbers.has(getPhoneKey(phone)));
}

/** Returns the last nine digits, which do not depend on the country code. */
function getPhoneKey(phone: string): string {
  return phone.replaceAll(/\D/gu, '').slice(-9);
}

/** Generic words in addresses in Ukrainian, Russian and English. */
const GENERIC_WORDS = new Set(
  [
    'вулиця вул ул улица проспект просп пр пркт бульвар бульв бул площа площадь пл провулок пров',
    'переулок пер шосе шоссе набережна набережная наб узвіз будинок буд дом д б корпус корп к',
    'місто м город г street st avenue ave road rd lane ln building bldg',
  ]
    .join(' ')
    .split(' '),
);

/** Words before the number of a flat, as opposed to the number of a building. */
const FLAT_WORDS = new Set([
  'кв',
  'квартира',
  'flat',
  'apt',
  'apartment',
  'офіс',
  'офис',
  'office',
]);

/** Words of the street, and number of the building if known. */
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
      if (!FLAT_WORDS.has(before)) numbers.push(word);
    } else if (word.length === 1 && /^\d+$/u.test(before) && numbers.at(-1) === before) {
      numbers.splice(-1, 1, before + word);
    } else if (
      word !== '' &&
      !GENERIC_WORDS.has(word) &&
      !FLAT_WORDS.has(word) &&
      !cityWords.has(word)
    ) {
      street.add(word);
    }
  }
  // The last number is that of the building; numbers in street names come before it.
  return { street, house: numbers.at(-1) };
}

/** Returns whether two street names may be the same, such as `франка` and `івана франка`. */
function isSameStreet(one: Address, other: Address): boolean {
  const [few, many] = [one.street, other.street].toSorted((a, b) => a.size - b.size);
  return few !== undefined && many !== undefined && few.size > 0 && few.isSubsetOf(many);
}

/** Minimum number of word pairs. Shorter texts may be similar by chance. */
const MIN_PAIRS = 8;

/**
 * Returns the similarity of two normalised texts from 0 to 1: Dice's coefficient of their pairs of adjacent words.
 * Returns undefined if a text is too short.
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
 * Compares two listings, regardless of their order.
 * @returns The score from 0 to 1 and its reasons; undefined if facts contradict, such as sale and rent.
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

/** Rounds a score to the three decimals that are stored and shown. */
function round(value: number): number {
  return Number(value.toFixed(3));
}
