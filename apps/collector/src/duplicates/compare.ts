import leven from 'leven';
import { MAX_COPY_DISTANCE, getHammingDistance } from '../images/decode.ts';
import { areInSameCity, areSameDistrict } from '../places/listing-place.ts';
import { createLatinKey } from '../places/transliteration.ts';
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

/** Minimum score of a duplicate. The labelled pairs in `samples/duplicates` and in the tests set it. */
export const MIN_DUPLICATE_SCORE = 0.56;

/** Score parts by finding. The values for copied texts and shared images are maxima. */
const WEIGHTS = {
  copiedText: 0.45,
  sameStreet: 0.03,
  otherStreet: -0.5,
  sameNumber: 0.1,
  sameBuilding: 0.24,
  sameBuildingUnknownFloor: 0.16,
  sameHouse: 0.35,
  sameFlat: 0.4,
  sameCadastralNumber: 0.4,
  otherBuilding: -0.4,
  within30Metres: 0.18,
  within200Metres: 0.08,
  beyond1000Metres: -0.3,
  sameDistrict: 0.03,
  otherDistrict: -0.1,
  samePreciseArea: 0.2,
  closePreciseArea: 0.1,
  otherPreciseArea: -0.2,
  sameRoundedArea: 0.12,
  closeRoundedArea: 0.12,
  otherRoundedArea: -0.06,
  sameRooms: 0.05,
  sameFloor: 0.14,
  sameHeight: 0.05,
  otherHeight: -0.15,
  samePrice: 0.085,
  similarPrice: 0.06,
  otherPrice: -0.2,
  oneImage: 0.3,
  severalImages: 0.45,
  otherImages: -0.2,
  sameSeller: 0.1,
} as const;

/** Maximum ratio of one price in two currencies, because sellers round it and use rates of other days. */
const MAX_RATE_RATIO = 1.04;

/** Maximum distance between duplicates. It is large because sites blur coordinates. */
const MAX_DISTANCE_METRES = 3000;

/** Score part, negative for evidence against a duplicate; undefined without evidence. */
type Evidence = { part: number; detail: string } | undefined;

type Scorer = (a: ComparedListing, b: ComparedListing) => Evidence;

const SCORERS: Record<Exclude<ReasonName, 'verdict'>, Scorer> = {
  text: scoreText,
  place: (a, b) =>
    scoreCadastralNumbers(a, b) ??
    scoreBuilding(a, b) ??
    scoreDistance(a, b) ??
    scoreStreet(a, b) ??
    scoreDistrict(a, b),
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
const SCORED_REASONS = Object.keys(SCORERS) as (keyof typeof SCORERS)[];
export const REASONS: readonly ReasonName[] = [...SCORED_REASONS, 'verdict'];

/** Comparison of two listings that a person has judged to be the same property. */
export const SAME_BY_VERDICT: Comparison = {
  score: 1,
  reasons: [{ reason: 'verdict', part: 1, detail: 'a person decided' }],
};

/**
 * Compares two listings, regardless of their order.
 * @returns The score from 0 to 1 and its reasons; undefined if the facts contradict each other, such as sale and rent.
 */
export function compareListings(a: ComparedListing, b: ComparedListing): Comparison | undefined {
  if (areContradictory(a, b)) return undefined;
  const reasons = SCORED_REASONS.flatMap((reason): Reason[] => {
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
    haveDifferentFlats(a, b) ||
    haveDifferentCadastralNumbers(a, b) ||
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
  const minSimilarity = haveSameSeller(a, b) ? 0.85 : 0.5;
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

/** Cadastral number of a plot in a normalized text, such as `4623686400 01 003 0123`. */
const CADASTRAL_PATTERN = /(?<!\d)\d{10} \d{2} \d{3} \d{4}(?!\d)/gu;

const findCadastralNumbers = ({ text }: ComparedListing) => new Set(text.match(CADASTRAL_PATTERN));

function haveDifferentCadastralNumbers(a: ComparedListing, b: ComparedListing): boolean {
  const [numbersOfA, numbersOfB] = [findCadastralNumbers(a), findCadastralNumbers(b)];
  return numbersOfA.size > 0 && numbersOfB.size > 0 && numbersOfA.isDisjointFrom(numbersOfB);
}

function scoreCadastralNumbers(a: ComparedListing, b: ComparedListing): Evidence {
  return findCadastralNumbers(a).isDisjointFrom(findCadastralNumbers(b))
    ? undefined
    : { part: WEIGHTS.sameCadastralNumber, detail: 'same cadastral number' };
}

function haveDifferentFlats(a: ComparedListing, b: ComparedListing): boolean {
  const [flatA, flatB] = [parseAddress(a).flat, parseAddress(b).flat];
  return flatA !== undefined && flatB !== undefined && flatA !== flatB;
}

/** Scores building numbers. Number and street may belong to one building even if languages name the street differently. */
function scoreBuilding(a: ComparedListing, b: ComparedListing): Evidence {
  const [addressA, addressB] = [parseAddress(a), parseAddress(b)];
  if (addressA.house === undefined || addressB.house === undefined) return undefined;
  const isSameStreet = compareStreets(a, b);
  if (isSameStreet === false) return undefined;
  if (addressA.house !== addressB.house)
    return { part: WEIGHTS.otherBuilding, detail: 'another building of the street' };
  if (isSameStreet === undefined)
    return { part: WEIGHTS.sameNumber, detail: 'same building number' };
  if (addressA.flat !== undefined && addressA.flat === addressB.flat)
    return { part: WEIGHTS.sameFlat, detail: 'same flat number' };
  if (a.property_type === 'house' && b.property_type === 'house')
    return { part: WEIGHTS.sameHouse, detail: 'same house' };
  // Flats of one shape are above each other.
  const hasBothFloors = a.floor !== null && b.floor !== null;
  const part = hasBothFloors ? WEIGHTS.sameBuilding : WEIGHTS.sameBuildingUnknownFloor;
  return { part, detail: 'same building' };
}

function scoreStreet(a: ComparedListing, b: ComparedListing): Evidence {
  const isSameStreet = compareStreets(a, b);
  if (isSameStreet === undefined) return undefined;
  return isSameStreet
    ? { part: WEIGHTS.sameStreet, detail: 'same street' }
    : { part: WEIGHTS.otherStreet, detail: 'another street' };
}

/**
 * Returns whether two addresses name the same street. Undefined if one names none, or if the names differ in two
 * languages: a name may be translated, such as "Перемоги" and "Победы".
 */
function compareStreets(a: ComparedListing, b: ComparedListing): boolean | undefined {
  const [streetA, streetB] = [parseAddress(a).street, parseAddress(b).street];
  if (streetA.length === 0 || streetB.length === 0) return undefined;
  const [shorter, longer] =
    streetA.length < streetB.length ? [streetA, streetB] : [streetB, streetA];
  // One name may be shorter, such as "франка" and "івана франка".
  const isSame = shorter.every((word) => longer.some((other) => areSpellings(word, other)));
  if (isSame) return true;
  return a.language === b.language || a.language === null || b.language === null
    ? false
    : undefined;
}

/** Returns whether two keys are spellings of one word: equal, or different in one letter of six or two of ten. */
function areSpellings(a: string, b: string): boolean {
  if (a === b) return true;
  const length = Math.min(a.length, b.length);
  const maxDistance = length >= 10 ? 2 : length >= 6 ? 1 : 0;
  return leven(a, b, { maxDistance: maxDistance + 1 }) <= maxDistance;
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

type Address = {
  /** Words of the street name, in the Latin letters that its spellings share. */
  street: readonly string[];
  house: string | undefined;
  flat: string | undefined;
};

/** Parses an address: `вул. Івана Франка, 12-А, кв. 7` has the street `ivana franka`, the house `12a` and the flat `7`. */
function parseAddress({ address, city }: ComparedListing): Address {
  const cityWords = new Set(normalizeText(city ?? '').split(' '));
  const words = normalizeText(address ?? '').split(' ');
  const isIgnored = (word: string) =>
    word === '' || GENERIC_WORDS.has(word) || FLAT_WORDS.has(word) || cityWords.has(word);
  const street: string[] = [];
  let house: string | undefined;
  let flat: string | undefined;
  for (const [index, word] of words.entries()) {
    const previousWord = words[index - 1] ?? '';
    const followsNumber = /^\d/u.test(previousWord) && flat === undefined;
    if (FLAT_WORDS.has(previousWord) && /^\d/u.test(word)) flat = word;
    // The last number belongs to the building. Numbers in street names come before it.
    else if (/^\d/u.test(word)) house = followsNumber && house ? `${house}/${word}` : word;
    else if (word.length === 1 && followsNumber && house) house += word;
    else if (!isIgnored(word)) street.push(createLatinKey(word, 'ru'));
  }
  return { street, house: house && createLatinKey(house, 'ru'), flat };
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

/** Scores the total area. A precise area is stronger evidence than a rounded one. */
function scoreArea(
  { area_total: a }: ComparedListing,
  { area_total: b }: ComparedListing,
): Evidence {
  if (a === null || b === null) return undefined;
  // Rounding to two decimals removes floating-point errors.
  const difference = Number(Math.abs(a - b).toFixed(2));
  if (difference === 0) {
    const part = isPreciseArea(a) ? WEIGHTS.samePreciseArea : WEIGHTS.sameRoundedArea;
    return { part, detail: `both ${a} m²` };
  }
  const detail = `${Math.min(a, b)} and ${Math.max(a, b)} m²`;
  if (!Number.isInteger(a) && !Number.isInteger(b)) {
    const isClose = difference <= 0.2;
    return { part: isClose ? WEIGHTS.closePreciseArea : WEIGHTS.otherPreciseArea, detail };
  }
  // A whole number was probably rounded.
  const isRounded = difference <= 0.5;
  return { part: isRounded ? WEIGHTS.closeRoundedArea : WEIGHTS.otherRoundedArea, detail };
}

/** Returns whether an area has three significant digits or more, such as 54.3 or 187, but not 54, 120 or 1000. */
const isPreciseArea = (area: number) => !Number.isInteger(area) || (area >= 100 && area % 10 !== 0);

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

/** Scores prices, converted if their currencies differ. Agencies ask slightly different prices. */
function scorePrice(a: ComparedListing, b: ComparedListing): Evidence {
  const isConverted = a.currency !== b.currency;
  const [priceA, priceB] = isConverted ? [a.amount, b.amount] : [a.price, b.price];
  if (!priceA || !priceB) return undefined;
  const ratio = Math.max(priceA, priceB) / Math.min(priceA, priceB);
  const difference = ratio === 1 ? 'same price' : `prices ${Math.round((ratio - 1) * 100)} % apart`;
  const detail = isConverted ? `${difference}, converted` : difference;
  if (ratio <= (isConverted ? MAX_RATE_RATIO : 1.01)) return { part: WEIGHTS.samePrice, detail };
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
  if (commonShare < 0.3 && minImageCount >= 3 && haveSameSeller(a, b)) {
    return { part: WEIGHTS.otherImages, detail: `the same seller, and ${detail}` };
  }
  if (commonCount === 0) return undefined;
  const weight = commonCount === 1 ? WEIGHTS.oneImage : WEIGHTS.severalImages;
  return { part: weight * Math.min(1, 1.5 * commonShare), detail };
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
