import { commonProblem } from '@oselya/kit';
import { Type } from 'typebox';
import type { MatchesRequest } from '../collector/client.ts';
import { searchFilters } from '../collector/generated/openapi.ts';

/** Words and filters of `POST /api/v1/search/matches`. */
export type Search = Omit<MatchesRequest, 'ids'>;

/** Schema of a search, with the collector's filters. Contract 4, Search. */
export const searchSchema = Type.Unsafe<Search>({
  type: 'object',
  properties: searchFilters,
  additionalProperties: false,
  minProperties: 1,
  description: 'The words and filters that a new or cheaper listing must match.',
});

const RANGE_FIELDS = [
  ['price_min', 'price_max'],
  ['price_per_m2_min', 'price_per_m2_max'],
  ['rooms_min', 'rooms_max'],
  ['area_min', 'area_max'],
  ['floor_min', 'floor_max'],
] as const;

/**
 * Rejects empty ranges, as the collector does.
 * @throws ProblemError `validation_failed` with each minimum that exceeds its maximum.
 */
export function checkRanges(search: Search): void {
  const errors = RANGE_FIELDS.filter(
    ([min, max]) => (search[min] ?? -Infinity) > (search[max] ?? Infinity),
  ).map(([min, max]) => ({ path: `body/search/${min}`, message: `must not be above ${max}` }));
  if (errors.length > 0) throw commonProblem('validation_failed', { errors });
}
