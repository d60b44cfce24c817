import { MAX_COPY_DISTANCE, getHammingDistance } from '../images/decode.ts';
import { areInSameCity, areSameDistrict } from '../places/listing-place.ts';
import type { Reason, ReasonName } from '../tables.ts';
import { normalizeText } from '../text.ts';
import {
  MAX_AREA_RATIO,
  type ComparedImage,
  type ComparedListing,
  MAX_PRICE_RATIO,
  MAX_TEXT_LENGTH,
} from './candidates.ts';

/** Likelihood that two listings offer the same property. The score is the sum of its reasons' parts, from 0 to 1. */
export type Comparison = { score: number; reasons: Reason[] };

/** Minimum score of a duplicate. It separates the labelled test pairs with a margin on both sides. */
export const MIN_DUPLICATE_SCORE = 0.56;

/** Score parts by finding. The values for copied texts and shared images are maxima. */
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

/** Maximum distance between duplicates. It is large because sites blur coordinates. */
const MAX_DISTANCE_METRES = 3000;

/** Score part, negative for evidence against a duplicate; undefined without evidence. */
type Evidence = { part: number; detail: string } | undefined;

type Scorer = (a: ComparedListing, b: ComparedListing) => Evidence;

const SCORERS: Record<ReasonName, Scorer> = {
  text: scoreText,
  place: (a, b) => scoreAddress(a, b) ?? scoreDistance(a, b) ?? scoreDistrict(a, b),
  area: scoreArea,
  rooms: scoreRooms,
  price: scorePrice,
  pictures: scoreImages,
  // Weak evidence, because a seller may offer many properties.
  seller: (a, b) =>
    haveSameSeller(a, b) ? { part: WEIGHTS.sameSeller, detail: 'same telephone' } : undefined,
};

/** Kinds of reasons, in the order of API responses. */
// `Object.keys` loses the key type.
export const REASONS = Object.keys(SCORERS) as ReasonName[];

/**
 * Compares two listings, regardless of their order.
 * @returns The score from 0 to 1 and its reasons; undefined if the facts contradict each other, such as sale and rent.
 */
export function compareListings(a: ComparedListing, b: ComparedListing): Comparison | undefined {
  if (areContradictory(a, b)) return undefined;
  const reasons = REASONS.flatMap((reason): Reason[] => {
    const evidence = SCORERS[reason](a, b);
    if (evidence === undefined || evidence.part === 0) return [];
    return [{ reason, part: roundScore(evidence.part), detail: evidence.detail }];
  });
  const sum = reasons.reduce((total, { part }) => total + part, 0);
  return { score: roundScore(Math.min(1, Math.max(0, sum))), reasons };
}

/** Rounds a score to the three decimals that are stored and shown. */
const roundScore = (value: number) => Number(value.toFixed(3));

/** Facts on which listings of the same property agree. */
const IDENTIFYING_FACTS = ['deal_type', 'rooms', 'floor'] as const;

/** Kinds that texts about one property may name, such as a flat that could be an office, or land with a house. */
const SIMILAR_TYPES = new Set([
  'apartment commercial',
  'apartment house',
  'apartment room',
  'commercial garage',
  'commercial house',
  'commercial land',
  'house land',
  'house room',
]);

function areDifferentTypes(a: string | null, b: string | null): boolean {
  if (a === null || b === null || a === b) return false;
  return !SIMILAR_TYPES.has([a, b].toSorted().join(' '));
}

function areContradictory(a: ComparedListing, b: ComparedListing): boolean {
  return (
    areDifferentTypes(a.property_type, b.property_type) ||
    IDENTIFYING_FACTS.some((fact) => a[fact] !== null && b[fact] !== null && a[fact] !== b[fact]) ||
    areInDifferentCities(a, b) ||
    areDifferentAreas(a.area_total, b.area_total) ||
    (getDistanceMetres(a, b) ?? 0) > MAX_DISTANCE_METRES
  );
}

/** Compares the cities of the places if both are known, otherwise their spelling. */
function areInDifferentCities(a: ComparedListing, b: ComparedListing): boolean {
  const isSameCity =
    a.place_path && b.place_path ? areInSameCity(a.place_path, b.place_path) : undefined;
  if (isSameCity !== undefined) return !isSameCity;
  return a.city_key !== null && b.city_key !== null && a.city_key !== b.city_key;
}

function areDifferentAreas(a: number | null, b: number | null): boolean {
  if (a === null || b === null || a === 0 || b === 0) return false;
  const areRounded = Math.abs(a - b) < 1;
  return !areRounded && Math.max(a, b) / Math.min(a, b) > MAX_AREA_RATIO;
}

const METRES_PER_DEGREE = 111_320;

/** Returns the distance in metres, accurate to one per cent over a few kilometres; undefined without coordinates. */
function getDistanceMetres(a: ComparedListing, b: ComparedListing): number | undefined {
  const { latitude: lat1, longitude: lon1 } = a;
  const { latitude: lat2, longitude: lon2 } = b;
  if (lat1 === null || lon1 === null || lat2 === null || lon2 === null) return undefined;
  const meanLatitude = ((lat1 + lat2) / 2) * (Math.PI / 180);
  const longitudeOffset = (lon1 - lon2) * Math.cos(meanLatitude);
  return METRES_PER_DEGREE * Math.hypot(lat1 - lat2, longitudeOffset);
}

/** Scores similar texts. Texts of the same seller share templates, so they count only if they are almost identical. */
function scoreText(a: ComparedListing, b: ComparedListing): Evidence {
  const similarity = getTextSimilarity(a.text, b.text);
  if (similarity === undefined) return undefined;
  const minSimilarity = haveSameSeller(a, b) ? 0.85 : 0.4;
  const part = WEIGHTS.copiedText * Math.max(0, (similarity - minSimilarity) / (1 - minSimilarity));
  return { part, detail: `${Math.round(similarity * 100)} % of the text` };
}

/** Minimum number of word pairs. Shorter texts may be similar by chance. */
const MIN_WORD_PAIRS = 8;

/**
 * Returns the similarity of two normalized texts from 0 to 1: Dice's coefficient of their sets of adjacent word pairs.
 * Returns undefined if either text is too short.
 */
function getTextSimilarity(a: string, b: string): number | undefined {
  const [pairsOfA, pairsOfB] = [listWordPairs(a), listWordPairs(b)];
  if (Math.min(pairsOfA.size, pairsOfB.size) < MIN_WORD_PAIRS) return undefined;
  return (2 * pairsOfA.intersection(pairsOfB).size) / (pairsOfA.size + pairsOfB.size);
}

function listWordPairs(text: string): Set<string> {
  const words = text.slice(0, MAX_TEXT_LENGTH).split(' ');
  return new Set(words.slice(1).map((word, index) => `${words[index]} ${word}`));
}

function scoreAddress(a: ComparedListing, b: ComparedListing): Evidence {
  const [addressA, addressB] = [parseAddress(a), parseAddress(b)];
  if (addressA.street.size === 0 || addressB.street.size === 0) return undefined;
  // One name may be shorter, such as "франка" and "івана франка".
  if (
    !addressA.street.isSubsetOf(addressB.street) &&
    !addressB.street.isSubsetOf(addressA.street)
  ) {
    return { part: WEIGHTS.otherStreet, detail: 'another street' };
  }
  if (addressA.house === undefined || addressB.house === undefined) {
    return { part: WEIGHTS.sameStreet, detail: 'same street' };
  }
  return addressA.house === addressB.house
    ? { part: WEIGHTS.sameBuilding, detail: 'same building' }
    : { part: WEIGHTS.otherBuilding, detail: 'another building of the street' };
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

/** Words before the number of a flat or office, as opposed to a building number. */
const FLAT_WORDS = new Set('кв квартира flat apt apartment офіс офис office'.split(' '));

/**
 * Parses the street words and the building number: `вул. Івана Франка, 12-А, кв. 7` is the street
 * `івана франка` and the house `12а`.
 */
function parseAddress({ address, city }: ComparedListing): {
  street: ReadonlySet<string>;
  house: string | undefined;
} {
  const cityWords = new Set(normalizeText(city ?? '').split(' '));
  const words = normalizeText(address ?? '').split(' ');
  const isIgnored = (word: string) =>
    word === '' || GENERIC_WORDS.has(word) || FLAT_WORDS.has(word) || cityWords.has(word);
  const streetWords = new Set<string>();
  const houseNumbers: string[] = [];
  for (const [index, word] of words.entries()) {
    const previousWord = words[index - 1] ?? '';
    if (/^\d/u.test(word)) {
      if (!FLAT_WORDS.has(previousWord)) houseNumbers.push(word);
    } else if (
      word.length === 1 &&
      /^\d+$/u.test(previousWord) &&
      houseNumbers.at(-1) === previousWord
    ) {
      houseNumbers.splice(-1, 1, previousWord + word);
    } else if (!isIgnored(word)) {
      streetWords.add(word);
    }
  }
  // The last number belongs to the building. Numbers in street names come before it.
  return { street: streetWords, house: houseNumbers.at(-1) };
}

function scoreDistance(a: ComparedListing, b: ComparedListing): Evidence {
  const metres = getDistanceMetres(a, b);
  if (metres === undefined) return undefined;
  const detail = `${Math.round(metres)} m apart`;
  if (metres <= 30) return { part: WEIGHTS.within30Metres, detail };
  if (metres <= 200) return { part: WEIGHTS.within200Metres, detail };
  return metres <= 1000 ? undefined : { part: WEIGHTS.beyond1000Metres, detail };
}

function scoreDistrict(a: ComparedListing, b: ComparedListing): Evidence {
  const [districtA, districtB] = [normalizeText(a.district ?? ''), normalizeText(b.district ?? '')];
  if (districtA === '' || districtB === '') return undefined;
  // "Шевченківський" and "Шевченківський район" are the same district.
  const haveSameName = districtA.includes(districtB) || districtB.includes(districtA);
  const isSamePlace =
    a.place_path && b.place_path ? areSameDistrict(a.place_path, b.place_path) : undefined;
  return (isSamePlace ?? haveSameName)
    ? { part: WEIGHTS.sameDistrict, detail: 'same district' }
    : { part: WEIGHTS.otherDistrict, detail: 'another district' };
}

/** Scores the total area. Matching decimals are stronger evidence than matching whole numbers. */
function scoreArea(
  { area_total: a }: ComparedListing,
  { area_total: b }: ComparedListing,
): Evidence {
  if (a === null || b === null) return undefined;
  // Rounding to two decimals removes floating-point errors.
  const difference = Number(Math.abs(a - b).toFixed(2));
  const arePrecise = !Number.isInteger(a) && !Number.isInteger(b);
  if (difference === 0) {
    const part = arePrecise ? WEIGHTS.samePreciseArea : WEIGHTS.sameRoundedArea;
    return { part, detail: `both ${a} m²` };
  }
  const detail = `${Math.min(a, b)} and ${Math.max(a, b)} m²`;
  // A whole number was probably rounded, so only two precise areas can lower the score.
  if (!arePrecise) {
    return { part: difference < 1 ? WEIGHTS.closeRoundedArea : WEIGHTS.similarRoundedArea, detail };
  }
  return { part: difference <= 0.2 ? WEIGHTS.closePreciseArea : WEIGHTS.otherPreciseArea, detail };
}

/** Scores matching rooms, floor and building height. Different rooms or floors are contradictions. */
function scoreRooms(a: ComparedListing, b: ComparedListing): Evidence {
  const details: string[] = [];
  let part = 0;
  if (a.rooms !== null && a.rooms === b.rooms) {
    part += WEIGHTS.sameRooms;
    details.push(`${a.rooms} rooms`);
  }
  if (a.floor !== null && a.floor === b.floor) {
    part += WEIGHTS.sameFloor;
    details.push(`floor ${a.floor}`);
  }
  if (a.floors_total !== null && b.floors_total !== null) {
    const isSame = a.floors_total === b.floors_total;
    part += isSame ? WEIGHTS.sameHeight : WEIGHTS.otherHeight;
    details.push(isSame ? `of ${a.floors_total}` : 'in buildings of different height');
  }
  return details.length === 0 ? undefined : { part, detail: details.join(', ') };
}

/** Scores prices in the same currency, because exchange rates are unknown. Agencies ask slightly different prices. */
function scorePrice(a: ComparedListing, b: ComparedListing): Evidence {
  if (!a.price || !b.price || a.currency !== b.currency) return undefined;
  const ratio = Math.max(a.price, b.price) / Math.min(a.price, b.price);
  const detail = ratio === 1 ? 'same price' : `prices ${Math.round((ratio - 1) * 100)} % apart`;
  if (ratio <= 1.01) return { part: WEIGHTS.samePrice, detail };
  if (ratio <= 1.12) return { part: WEIGHTS.similarPrice, detail };
  return ratio <= MAX_PRICE_RATIO ? undefined : { part: WEIGHTS.otherPrice, detail };
}

/**
 * Scores shared images. A single shared image may be a logo or the building, so it counts less. Mostly different images
 * of the same seller indicate a different property.
 */
function scoreImages(a: ComparedListing, b: ComparedListing): Evidence {
  const minImageCount = Math.min(a.images.length, b.images.length);
  if (minImageCount === 0) return undefined;
  // An image may have several copies, but counts once.
  const commonCount = Math.min(
    countImagesWithCopy(a.images, b.images),
    countImagesWithCopy(b.images, a.images),
  );
  const commonShare = commonCount / minImageCount;
  const detail = `${commonCount} of ${minImageCount} pictures`;
  if (commonShare < 0.5 && minImageCount >= 3 && haveSameSeller(a, b)) {
    return { part: WEIGHTS.otherImages, detail: `the same seller, and ${detail}` };
  }
  if (commonCount === 0) return undefined;
  const part =
    commonCount === 1
      ? WEIGHTS.oneImage * commonShare
      : WEIGHTS.severalImages * Math.min(1, 1.5 * commonShare);
  return { part, detail };
}

function countImagesWithCopy(
  images: readonly ComparedImage[],
  candidates: readonly ComparedImage[],
): number {
  return images.filter((image) => candidates.some((candidate) => areCopies(image, candidate)))
    .length;
}

function areCopies(a: ComparedImage, b: ComparedImage): boolean {
  if (a.sha256 === b.sha256) return true;
  // Every blank image has the fingerprint 0, so equal zeros do not show a copy.
  if (!a.fingerprint || !b.fingerprint) return false;
  return getHammingDistance(a.fingerprint, b.fingerprint) <= MAX_COPY_DISTANCE;
}

function haveSameSeller(a: ComparedListing, b: ComparedListing): boolean {
  const phoneKeys = new Set(a.phones.map(getPhoneKey));
  phoneKeys.delete('');
  return b.phones.some((phone) => phoneKeys.has(getPhoneKey(phone)));
}

/** Returns the last nine digits, which do not depend on the country code. */
const getPhoneKey = (phone: string) => phone.replaceAll(/\D/gu, '').slice(-9);
