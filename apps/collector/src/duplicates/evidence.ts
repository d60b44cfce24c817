import { COPY_BITS, hammingDistance } from '../images/fingerprint.ts';
import { normaliseText } from '../text.ts';
import { isSameStreet, parseAddress } from './address.ts';
import type { Compared, ComparedPicture } from './compared.ts';
import { distanceMetres } from './distance.ts';
import { PRICE_RATIO } from './ratios.ts';
import { textSimilarity } from './text-similarity.ts';

/** What one kind of evidence says: its part of the score, below zero where it speaks against. */
type Part = { part: number; detail: string } | undefined;

/** Evidence of one kind. It is symmetric, and undefined where nothing is known. */
export type Scorer = (one: Compared, other: Compared) => Part;

/**
 * What was copied is nearly the same. Templates are alike too: of one seller only what is all but equal
 * says anything.
 */
export const text: Scorer = (one, other) => {
  const similarity = textSimilarity(one.text, other.text);
  if (similarity === undefined) return undefined;
  const from = haveOneSeller(one, other) ? 0.85 : 0.4;
  const part = 0.45 * Math.max(0, (similarity - from) / (1 - from));
  return { part, detail: `${Math.round(similarity * 100)} % of the text` };
};

/** The address where both have one, else the coordinates, else the district. */
export const place: Scorer = (one, other) =>
  byAddress(one, other) ?? byDistance(one, other) ?? byDistrict(one, other);

function byAddress(one: Compared, other: Compared): Part {
  if (one.address === null || other.address === null) return undefined;
  const [a, b] = [parseAddress(one.address, one.city), parseAddress(other.address, other.city)];
  if (a.street.size === 0 || b.street.size === 0) return undefined;
  if (!isSameStreet(a, b)) return { part: -0.35, detail: 'another street' };
  if (a.house === undefined || b.house === undefined) return { part: 0.1, detail: 'same street' };
  return a.house === b.house
    ? { part: 0.2, detail: 'same building' }
    : { part: -0.4, detail: 'another building of the street' };
}

function byDistance(one: Compared, other: Compared): Part {
  const metres = distanceMetres(one, other);
  if (metres === undefined) return undefined;
  const detail = `${Math.round(metres)} m apart`;
  if (metres <= 30) return { part: 0.15, detail };
  if (metres <= 200) return { part: 0.08, detail };
  return metres <= 1000 ? undefined : { part: -0.3, detail };
}

function byDistrict(one: Compared, other: Compared): Part {
  const [a, b] = [one.district, other.district].map((name) => normaliseText(name ?? ''));
  if (a === undefined || b === undefined || a === '' || b === '') return undefined;
  // "Шевченківський" and "Шевченківський район" are one.
  return a.includes(b) || b.includes(a)
    ? { part: 0.05, detail: 'same district' }
    : { part: -0.1, detail: 'another district' };
}

/** The same area to the decimal says more than the same whole number of metres. */
export const area: Scorer = ({ area_total: one }, { area_total: other }) => {
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
export const rooms: Scorer = (one, other) => {
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
export const price: Scorer = (one, other) => {
  if (one.price === null || other.price === null || one.price === 0 || other.price === 0) {
    return undefined;
  }
  // Nobody here knows the rate of exchange.
  if (one.currency !== other.currency) return undefined;
  const [low, high] = [Math.min(one.price, other.price), Math.max(one.price, other.price)];
  const ratio = high / low;
  const detail = ratio === 1 ? 'same price' : `prices ${Math.round((ratio - 1) * 100)} % apart`;
  if (ratio <= 1.01) return { part: 0.1, detail };
  if (ratio <= 1.12) return { part: 0.06, detail };
  return ratio <= PRICE_RATIO ? undefined : { part: -0.2, detail };
};

/**
 * Pictures that both show. One alone may be the building, or an agency's logo, so it says less, and all
 * the less the more there are that only one of them shows. A seller who offers something again has its
 * pictures at hand: mostly other ones are of another property.
 */
export const pictures: Scorer = (one, other) => {
  const fewest = Math.min(one.pictures.length, other.pictures.length);
  if (fewest === 0) return undefined;
  const common = countCommon(one.pictures, other.pictures);
  const share = common / fewest;
  if (share < 0.5 && fewest >= 3 && haveOneSeller(one, other)) {
    return { part: -0.2, detail: `the same seller, and ${common} of ${fewest} pictures` };
  }
  if (common === 0) return undefined;
  const part = common === 1 ? 0.25 * share : 0.45 * Math.min(1, 1.5 * share);
  return { part, detail: `${common} of ${fewest} pictures` };
};

/** How many pictures of the smaller set the other one has too; each of those is counted once. */
function countCommon(one: readonly ComparedPicture[], other: readonly ComparedPicture[]): number {
  return Math.min(
    one.filter((picture) => hasCopy(other, picture)).length,
    other.filter((picture) => hasCopy(one, picture)).length,
  );
}

function hasCopy(set: readonly ComparedPicture[], picture: ComparedPicture): boolean {
  return set.some((candidate) => isCopy(candidate, picture));
}

function isCopy(one: ComparedPicture, other: ComparedPicture): boolean {
  if (one.sha256 === other.sha256) return true;
  // On a picture of one colour there is nothing to see, and all of them look alike.
  if (!one.fingerprint || !other.fingerprint) return false;
  return hammingDistance(one.fingerprint, other.fingerprint) <= COPY_BITS;
}

/** One telephone is one seller's, who may sell much. */
export const seller: Scorer = (one, other) =>
  haveOneSeller(one, other) ? { part: 0.08, detail: 'same telephone' } : undefined;

function haveOneSeller(one: Compared, other: Compared): boolean {
  const numbers = new Set(one.phones.map(telephone));
  numbers.delete('');
  return other.phones.some((phone) => numbers.has(telephone(phone)));
}

/** The digits that are the same whether or not the country is written. */
function telephone(phone: string): string {
  return phone.replaceAll(/\D/gu, '').slice(-9);
}
