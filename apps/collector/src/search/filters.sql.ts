import { type Expression, expressionBuilder, type SqlBool } from 'kysely';
import type { Tables } from '../tables.ts';
import { rangesOf, valuesOf } from './filters.ts';
import type { SearchFilters } from './schemas.ts';

/**
 * The condition on `property_listings` that the filters make. A listing without a price is in no price
 * range, and so on; archived listings are left out unless asked for. Prices are compared as the
 * numbers they are, whatever the currency. Contract 4, Search.
 */
export function matchesFilters(filters: SearchFilters): Expression<SqlBool> {
  const eb = expressionBuilder<Tables, 'property_listings'>();
  const conditions: Expression<SqlBool>[] = [];
  for (const { column, value } of valuesOf(filters)) conditions.push(eb(column, '=', value));
  for (const { column, min, max } of rangesOf(filters)) {
    if (min !== undefined) conditions.push(eb(column, '>=', min));
    if (max !== undefined) conditions.push(eb(column, '<=', max));
  }
  if (filters.include_archived !== true) conditions.push(eb('archived_at', 'is', null));
  return eb.and(conditions);
}
