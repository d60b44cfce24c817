import type { Messages } from '../i18n/en/index.ts';
import { formatDay, formatPrice, translateValue } from './format.ts';
import type { Listing } from './types.ts';

/** Facts in the order in which they are shown. */
export const FACT_NAMES = [
  'price',
  'price_per_m2',
  'deal_type',
  'property_type',
  'rooms',
  'area_total',
  'area_living',
  'area_kitchen',
  'floor',
  'floors_total',
  'year_built',
  'city',
  'district',
  'address',
  'features',
  'contact_name',
  'phones',
  'source_slug',
  'published_at',
  'first_seen_at',
] as const satisfies readonly (keyof Listing)[];

export type FactName = (typeof FACT_NAMES)[number];

type Context = { currency: string | null; language: string; texts: Messages['listings'] };

/** Writes the value of a fact, or returns undefined without one. */
export function formatFact(
  name: FactName,
  value: unknown,
  { currency, language, texts }: Context,
): string | undefined {
  if (value === null || value === undefined || value === '') return undefined;
  switch (name) {
    case 'price':
    case 'price_per_m2':
      return currency === null
        ? Number(value).toLocaleString(language)
        : formatPrice({ amount: Number(value), currency }, language);
    case 'area_total':
    case 'area_living':
    case 'area_kitchen':
      return texts.squareMetres(Number(value).toLocaleString(language));
    case 'rooms':
      return texts.rooms(Number(value));
    case 'published_at':
    case 'first_seen_at':
      return formatDay(value as string, language);
    case 'deal_type':
    case 'property_type':
      return translateValue(value as string, texts);
    case 'features':
    case 'phones':
      return (value as string[]).map((item) => translateValue(item, texts)).join(', ') || undefined;
    default:
      return `${value as string | number}`;
  }
}
