import { type Kysely, type RawBuilder, sql } from 'kysely';
import { type Static, Type } from 'typebox';
import { problem } from '../errors.ts';
import type { Tables } from '../tables.ts';
import { BASE_CURRENCY, listLatestRates } from './rates.ts';

/** Conversion to a currency. */
export type Conversion = {
  currency: string;
  /** Units of `currency` for one unit of each convertible currency, and the date of the rate. */
  factors: ReadonlyMap<string, { factor: number; date: string | undefined }>;
  /** The latest day of all rates; undefined without one. */
  latestDay: string | undefined;
};

/** Schema of a currency in a request. */
export const requestedCurrencySchema = Type.Optional(
  Type.String({
    pattern: '^[A-Z]{3}$',
    description:
      'ISO 4217 code of the currency of prices in this request. Listings in other currencies are converted at the latest rate.',
  }),
);

/** Schema of a converted price. */
export const convertedPriceSchema = Type.Union(
  [
    Type.Object({
      amount: Type.Number(),
      currency: Type.String(),
      rate_date: Type.String({
        format: 'date',
        description: 'Date of the older of the two rates.',
      }),
    }),
    Type.Null(),
  ],
  {
    description:
      'The price in the currency that the request names or filters by, if the listing has another one; otherwise null.',
    'x-label': 'price in the requested currency',
    'x-shown': 'list',
  },
);

type ConvertedPrice = Static<typeof convertedPriceSchema>;

/** Returns the currency of a request without one: homes in Ukraine are sold in dollars and let in hryvnias. */
export function getDefaultCurrency(dealTypes: string | readonly string[] = []): string {
  const [dealType, ...otherTypes] = new Set([dealTypes].flat());
  return dealType === 'sale' && otherTypes.length === 0 ? 'USD' : BASE_CURRENCY;
}

/**
 * Reads the latest rates for the conversion to a currency. Without a rate, only its own prices can be compared.
 * @param requestedPath Path of a currency that the request names. Undefined for a default currency.
 * @param lastDay Excludes rates of later days.
 * @throws ProblemError `validation_failed` if the request names a currency without a rate.
 */
export async function readConversion(
  db: Kysely<Tables>,
  currency: string,
  requestedPath: string | undefined,
  lastDay?: string,
): Promise<Conversion> {
  const rates = new Map<string, { rate: number; date: string | undefined }>([
    [BASE_CURRENCY, { rate: 1, date: undefined }],
  ]);
  for (const { currency: code, rate, date } of await listLatestRates(db, lastDay)) {
    rates.set(code, { rate, date });
  }
  const days = [...rates.values()].flatMap(({ date }) => date ?? []);
  const latestDay = days.toSorted().at(-1);
  const target = rates.get(currency);
  if (target === undefined && requestedPath !== undefined) {
    const message = `must be a currency with a rate: ${[...rates.keys()].toSorted().join(', ')}`;
    throw problem('validation_failed', { errors: [{ path: requestedPath, message }] });
  }
  const factors = new Map([[currency, { factor: 1, date: target?.date }]]);
  if (target === undefined) return { currency, factors, latestDay };
  for (const [code, { rate, date }] of rates) {
    if (code === currency) continue;
    // A conversion is as old as the older of its two rates.
    const [olderDate] = [date, target.date].filter((day) => day !== undefined).toSorted();
    factors.set(code, { factor: rate / target.rate, date: olderDate });
  }
  return { currency, factors, latestDay };
}

/** Returns the price of a listing in the currency of a conversion; null if it has that currency or no known one. */
export function convertPrice(
  { price, currency }: { price: number | null; currency: string | null },
  conversion: Conversion | undefined,
): ConvertedPrice {
  if (price === null || currency === null || currency === conversion?.currency) return null;
  const { factor, date } = conversion?.factors.get(currency) ?? {};
  if (conversion === undefined || factor === undefined || date === undefined) return null;
  const amount = roundAmount(price * factor);
  return { amount, currency: conversion.currency, rate_date: date };
}

const roundAmount = (amount: number) => Math.round(amount * 100) / 100;

/** Returns the SQL expression of an amount of a row in the currency of a conversion; null if the row has no known one. */
export function selectConverted(
  amount: RawBuilder<unknown>,
  conversion: Conversion | undefined,
): RawBuilder<number | null> {
  if (conversion === undefined) return sql`null::float8`;
  const cases = Array.from(
    conversion.factors,
    ([currency, { factor }]) => sql`when ${currency} then ${factor}::float8`,
  );
  return sql`${amount}::float8 * case currency ${sql.join(cases, sql` `)} end`;
}

/** Half of the smallest unit of a shown amount. */
const ROUNDING = 0.005;

type Bounds = { min: number | undefined; max: number | undefined };

/** Returns the bounds of a price in each convertible currency. They include amounts that are rounded to a bound. */
export function convertBounds(
  { factors }: Conversion,
  { min, max }: Bounds,
): (Bounds & { currency: string })[] {
  return Array.from(factors, ([currency, { factor }]) => {
    const rounding = factor === 1 ? 0 : ROUNDING;
    return {
      currency,
      min: min === undefined ? undefined : (min - rounding) / factor,
      max: max === undefined ? undefined : (max + rounding) / factor,
    };
  });
}
