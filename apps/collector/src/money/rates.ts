import { type Kysely, sql } from 'kysely';
import type { Tables } from '../tables.ts';
import startingRates from './starting-rates.json' with { type: 'json' };

/** Currency in which rates are stated. Its own rate is 1 and is not stored. */
export const BASE_CURRENCY = 'UAH';

/** Hryvnias for one unit of a currency on a day. */
export type Rate = { date: string; currency: string; rate: number };

/** Bounds of the column `numeric(20, 10)`. */
const RATE_BOUNDS = { min: 1e-9, max: 1e9 };

/**
 * Parses a rate of a file. A number may have a decimal comma.
 * @throws RangeError with the violated rule.
 */
export function parseRate(fields: Partial<Record<keyof Rate, unknown>>): Rate {
  const [date, currency] = [toTrimmedText(fields.date), toTrimmedText(fields.currency)];
  const rate = Number(toTrimmedText(fields.rate).replace(',', '.') || NaN);
  const time = new Date(`${date}T00:00:00Z`);
  if (Number.isNaN(time.getTime()) || time.toISOString().slice(0, 10) !== date)
    throw new RangeError('date must be a day such as 2026-11-16');
  if (!/^[A-Z]{3}$/.test(currency))
    throw new RangeError('currency must be a code of ISO 4217 such as USD');
  if (!(rate >= RATE_BOUNDS.min && rate <= RATE_BOUNDS.max))
    throw new RangeError('rate must be a number above 0, in hryvnias for one unit');
  if (currency === BASE_CURRENCY && rate !== 1)
    throw new RangeError(`the rate of ${BASE_CURRENCY} is 1, because rates are in hryvnias`);
  return { date, currency, rate };
}

const toTrimmedText = (value: unknown) =>
  typeof value === 'string' || typeof value === 'number' ? String(value).trim() : '';

/** Stores rates. A rate for the same currency and day is replaced. */
export async function storeRates(
  db: Kysely<Tables>,
  rates: readonly Rate[],
  source: 'starting_set' | 'file' = 'file',
): Promise<void> {
  // One statement cannot update a row twice: the last rate of a day counts.
  const ratesByKey = new Map(
    rates
      .filter(({ currency }) => currency !== BASE_CURRENCY)
      .map((rate) => [`${rate.currency} ${rate.date}`, rate]),
  );
  await sql`
    insert into currency_rates (currency, day, rate, source)
    select currency, "date", rate, ${source}::text
    from jsonb_to_recordset(${JSON.stringify([...ratesByKey.values()])}::jsonb)
      as loaded (currency text, "date" date, rate numeric)
    on conflict (currency, day) do update set rate = excluded.rate, source = excluded.source`.execute(
    db,
  );
}

/** Stores the rates that Oselya starts with if there are none. They are approximate and soon outdated. */
export async function storeStartingRates(db: Kysely<Tables>): Promise<void> {
  const row = await db.selectFrom('currency_rates').select('currency').limit(1).executeTakeFirst();
  if (row === undefined) await storeRates(db, startingRates, 'starting_set');
}

/**
 * Returns the latest rate of each currency except the base currency. Rates of a file precede the starting ones.
 * @param lastDay Excludes rates of later days, such as 2026-11-16.
 */
export async function listLatestRates(
  db: Kysely<Tables>,
  lastDay = '9999-12-31',
): Promise<(Rate & { isStartingRate: boolean })[]> {
  const { rows } = await sql<Rate & { isStartingRate: boolean }>`
    select distinct on (currency) currency, rate, day::text as "date",
      source = 'starting_set' as "isStartingRate"
    from currency_rates where day::text <= ${lastDay}
    order by currency, source = 'starting_set', day desc`.execute(db);
  return rows;
}
