import { rule } from './patterns.ts';
import type { Amount } from './amounts.ts';
import { readAmounts } from './amounts.ts';
import { dealTypeOfPrice, lastOffer, offersEither } from './deal-type.ts';
import {
  DAILY,
  DAILY_BEFORE,
  LABELS,
  LET_NOW,
  MEASURE,
  MONTHLY,
  OTHER_AFTER,
  PERCENT,
  PER_UNIT,
  QUESTIONED,
} from './price-words.ts';
import type { Role } from './price-words.ts';
import type { DealType, PropertyType } from './types.ts';

/** A price and its currency, ISO 4217. */
export type Price = {
  price: number | null;
  currency: string | null;
};

const GARAGE = rule(
  String.raw`(?:гараж|паркінг|паркомісц|машиномісц|машиномест|parking|garage)\p{L}*`,
  'gu',
);

/** Below these a sum is no price of a home. */
const LEAST: Record<DealType, number> = { sale: 500, rent: 30, daily_rent: 5 };
/** Numbers without a currency are taken for prices only within bounds, to leave counts alone. */
const LEAST_LABELLED = 100;
const LEAST_BARE = 1_000;
const MOST_BARE = 100_000_000;

function lastLabel(before: string): Role | null {
  let role: Role | null = null;
  let at = -1;
  for (const [candidate, pattern] of LABELS) {
    const last = [...before.matchAll(pattern)].at(-1);
    const end = last === undefined ? -1 : last.index + last[0].length;
    if (end > at) [role, at] = [candidate, end];
  }
  return role;
}

/** Words beyond a comma, plus or full stop belong to something said before. */
function clauseBefore({ before }: Amount): string {
  return before.split(/,(?!\d)|\+|\. /u).at(-1) ?? '';
}

const isYear = ({ value }: Amount): boolean => value >= 1900 && value <= 2035;
const isMoney = ({ currency, scaled }: Amount): boolean => currency !== null || scaled;

/** Whether an amount is surely for something else, or by another measure, than the deal's price. */
function isNoPrice(amount: Amount, deal: DealType | null): boolean {
  const { value, after } = amount;
  if (value < (deal === null ? LEAST.daily_rent : LEAST[deal])) return true;
  if ([PERCENT, PER_UNIT, OTHER_AFTER].some((pattern) => pattern.test(after))) return true;
  return deal === 'sale' && (MONTHLY.test(after) || LET_NOW.test(clauseBefore(amount)));
}

/** 1 when the amount's period is the deal's, -1 when it is another's, 0 when it has none. */
function periodFit(amount: Amount, deal: DealType | null): -1 | 0 | 1 {
  if (deal !== 'rent' && deal !== 'daily_rent') return 0;
  const [own, other] = deal === 'rent' ? [MONTHLY, DAILY] : [DAILY, MONTHLY];
  if (own.test(amount.after)) return 1;
  if (other.test(amount.after)) return -1;
  const isDaily = isMoney(amount) && DAILY_BEFORE.test(clauseBefore(amount));
  return isDaily ? (deal === 'daily_rent' ? 1 : -1) : 0;
}

/** Whether a number without a currency may be a sum of money at all. */
function isBarePrice(amount: Amount, role: Role | null, fit: number): boolean {
  const { value, before, after } = amount;
  if (fit === 1) return value >= LEAST_LABELLED;
  if (MEASURE.test(after)) return false;
  if (role !== null) return value >= LEAST_LABELLED && (role === 'price' || !isYear(amount));
  const isRound = value >= LEAST_BARE && value <= MOST_BARE && value % 50 === 0;
  return isRound && !isYear(amount) && !/[№#/-] ?$/u.test(before);
}

const SAID_AFTER = rule(String.raw`^[ (-]*(?:(?:for|за|на) )?\p{L}+`);

/** Whether an amount is for another deal than the one that is read, by the words beside it or its size. */
function isForOtherDeal(amount: Amount, deal: DealType | null): boolean {
  const before = clauseBefore(amount);
  const named = offersEither(before)
    ? dealTypeOfPrice(amount.value, amount.currency)
    : (lastOffer(before) ?? lastOffer(SAID_AFTER.exec(amount.after)?.[0] ?? ''));
  return deal !== null && named !== null && (named === 'sale') !== (deal === 'sale');
}

/** How well an amount serves as the price; 0 for none at all. */
function score(amount: Amount, deal: DealType | null): number {
  const role = lastLabel(clauseBefore(amount));
  if (role === 'other' || isNoPrice(amount, deal) || isForOtherDeal(amount, deal)) return 0;
  const fit = periodFit(amount, deal);
  const money = isMoney(amount);
  if (!money && !isBarePrice(amount, role, fit)) return 0;
  // A round number that nothing explains is the last thing to be taken for a price.
  if (!money && role === null && fit !== 1) return deal === null ? 0 : 1;
  const said = role === 'new' ? 6 : role === 'price' ? 2 : 0;
  const doubt = QUESTIONED.test(amount.after) ? 3 : 0;
  return Math.max(1, (money ? 4 : 2) + said + 3 * fit - doubt);
}

/** Monthly rents from here up that name no currency are in hryvnias; so are nights from 300. */
const LEAST_HRYVNIA_RENT = 3_000;
const LEAST_HRYVNIA_NIGHT = 300;

function usualCurrency(price: number, deal: DealType | null): string | null {
  if (deal === 'rent' && price >= LEAST_HRYVNIA_RENT) return 'UAH';
  return deal === 'daily_rent' && price >= LEAST_HRYVNIA_NIGHT ? 'UAH' : null;
}

function currencyOf(amounts: Amount[], price: number): string | null {
  return (
    amounts.find(({ value, currency }) => value === price && currency !== null)?.currency ?? null
  );
}

/**
 * The asking price in a folded text, told apart from deposits, utilities, commissions, prices per
 * square metre and prices of the past. The best amount wins, the first one among equals.
 */
export function readPrice(folded: string, deal: DealType | null, type: PropertyType | null): Price {
  let best: Amount | null = null;
  let bestScore = 0;
  // Next to a flat the garage has a price of its own; on its own it is what the price is for.
  const amounts = readAmounts(type === 'garage' ? folded.replace(GARAGE, ' ') : folded);
  for (const amount of amounts) {
    const points = score(amount, deal);
    if (points > bestScore) [best, bestScore] = [amount, points];
  }
  if (best === null) return { price: null, currency: null };
  const currency =
    best.currency ?? currencyOf(amounts, best.value) ?? usualCurrency(best.value, deal);
  return { price: best.value, currency };
}

/** The currency a text gives to a known price; null when the text does not name the price. */
export function currencyOfPrice(folded: string, price: number): string | null {
  return currencyOf(readAmounts(folded), price);
}
