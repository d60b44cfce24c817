import { problem } from '../errors.ts';
import { normaliseText, spellAlike } from '../text.ts';
import type { SearchFilters } from './schemas.ts';

const RANGES = [
  ['price', 'price_min', 'price_max'],
  ['rooms', 'rooms_min', 'rooms_max'],
  ['area_total', 'area_min', 'area_max'],
] as const;

/** A column that a filter bounds. */
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

const COLUMNS = ['deal_type', 'city_key', 'property_type', 'source_slug'] as const;

/** A column that has the one value which a filter names. */
export type ValueColumn = (typeof COLUMNS)[number];

/**
 * The values that filters name, as the columns have them: a city is found however it is written, and a type
 * of property, which listings have in one spelling, in any.
 */
export function valuesOf({
  deal_type,
  city,
  property_type,
  source_slug,
}: SearchFilters): { column: ValueColumn; value: string }[] {
  const values = {
    deal_type,
    city_key: city === undefined ? undefined : normaliseText(city),
    property_type: property_type === undefined ? undefined : spellAlike(property_type),
    source_slug,
  };
  return COLUMNS.flatMap((column) => {
    const value = values[column];
    return value === undefined ? [] : [{ column, value }];
  });
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
