import { type Expression, expressionBuilder, type SqlBool } from 'kysely';
import type { Tables } from '../database.ts';
import { problem } from '../errors.ts';
import { normaliseText } from './normalise.ts';
import type { SearchFilters } from './schemas.ts';

const RANGES = [
  ['price', 'price_min', 'price_max'],
  ['rooms', 'rooms_min', 'rooms_max'],
  ['area_total', 'area_min', 'area_max'],
] as const;

export type RangeColumn = (typeof RANGES)[number][0];

/** The ranges that filters name, by their columns; an end that is not named is open. */
export function rangesOf(
  filters: SearchFilters,
): { column: RangeColumn; min: number | undefined; max: number | undefined }[] {
  return RANGES.map(([column, min, max]) => ({
    column,
    min: filters[min],
    max: filters[max],
  })).filter(({ min, max }) => min !== undefined || max !== undefined);
}

/**
 * Refuses ranges that nothing can be in.
 * @throws ProblemError `validation_failed` naming each lower end that is above its upper end.
 */
export function checkRanges(filters: SearchFilters): void {
  const errors = RANGES.filter(
    ([, min, max]) => (filters[min] ?? -Infinity) > (filters[max] ?? Infinity),
  ).map(([, min, max]) => ({ path: `body/${min}`, message: `must not be above ${max}` }));
  if (errors.length > 0) throw problem('validation_failed', { errors });
}

/**
 * The condition on `property_listings` that the filters make. A listing without a price is in no price
 * range, and so on; archived listings are left out unless asked for. Prices are compared as the
 * numbers they are, whatever the currency. Contract 4, Search.
 */
export function matchesFilters(filters: SearchFilters): Expression<SqlBool> {
  const eb = expressionBuilder<Tables, 'property_listings'>();
  const conditions: Expression<SqlBool>[] = [];
  for (const column of ['deal_type', 'property_type', 'source_slug'] as const) {
    const value = filters[column];
    if (value !== undefined) conditions.push(eb(column, '=', value));
  }
  if (filters.city !== undefined) {
    conditions.push(eb('city_key', '=', normaliseText(filters.city)));
  }
  for (const { column, min, max } of rangesOf(filters)) {
    if (min !== undefined) conditions.push(eb(column, '>=', min));
    if (max !== undefined) conditions.push(eb(column, '<=', max));
  }
  if (filters.include_archived !== true) conditions.push(eb('archived_at', 'is', null));
  return eb.and(conditions);
}
