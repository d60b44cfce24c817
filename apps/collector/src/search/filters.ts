import { problem } from '../errors.ts';
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
