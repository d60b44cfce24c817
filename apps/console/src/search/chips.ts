import type { Messages } from '../i18n/en/index.ts';
import { formatDay, formatPrice, translateValue } from '../listings/format.ts';
import type { FilterName, Search, SearchChanges } from './address.ts';

/** Filter of a search in words, and the change that removes it. */
export type Chip = { id: string; text: string; removal: SearchChanges };

const LISTS = [
  'deal_type',
  'property_type',
  'city',
  'district',
  'region',
  'features',
  'source_slug',
] as const;

const FLAGS = ['has_images', 'not_first_floor', 'not_last_floor'] as const;
const TIMES = ['price_dropped_since', 'first_seen_since'] as const;

const RANGES = [
  ['price_min', 'price_max', 'price'],
  ['price_per_m2_min', 'price_per_m2_max', 'price_per_m2'],
  ['rooms_min', 'rooms_max', 'rooms'],
  ['area_min', 'area_max', 'area_total'],
  ['floor_min', 'floor_max', 'floor'],
] as const satisfies readonly (readonly [FilterName, FilterName, string])[];

/** Lists the filters of a search. Prices without a currency are in the given one. */
export function listChips(
  search: Search,
  {
    language,
    texts,
    currency,
  }: { language: string; texts: Messages['listings']; currency?: string },
): Chip[] {
  const lists = LISTS.flatMap((name) =>
    (search[name] ?? []).map((value) => {
      const others = search[name]?.filter((other) => other !== value) ?? [];
      return {
        id: `${name} ${value}`,
        text: translateValue(value, texts),
        removal: { [name]: others.length === 0 ? undefined : others },
      };
    }),
  );
  const ranges = RANGES.flatMap(([min, max, field]) => {
    const text = describeRange(search[min], search[max], (value) => {
      const priceCurrency = search.currency ?? currency;
      const isPrice = field.startsWith('price') && priceCurrency !== undefined;
      if (isPrice) return formatPrice({ amount: value, currency: priceCurrency }, language);
      return field === 'area_total'
        ? texts.squareMetres(value.toLocaleString(language))
        : String(value);
    });
    if (text === undefined) return [];
    const label =
      field.startsWith('price') || field === 'area_total' ? '' : `${texts.fields[field]}: `;
    const shownText = field === 'price_per_m2' ? texts.perSquareMetre(text) : text;
    return [
      { id: field, text: label + shownText, removal: { [min]: undefined, [max]: undefined } },
    ];
  });
  const flags = FLAGS.filter((name) => search[name] === true).map((name) => ({
    id: name,
    text: texts.flags[name],
    removal: { [name]: undefined },
  }));
  const times = TIMES.filter((name) => search[name] !== undefined).map((name) => ({
    id: name,
    text: `${texts.since[name]} ${formatDay(search[name] ?? '', language)}`,
    removal: { [name]: undefined },
  }));
  return [...lists, ...ranges, ...flags, ...times];

  function describeRange(
    min: number | undefined,
    max: number | undefined,
    format: (value: number) => string,
  ): string | undefined {
    if (min === undefined) return max === undefined ? undefined : texts.toValue(format(max));
    if (max === undefined) return texts.fromValue(format(min));
    return min === max ? format(min) : `${format(min)} – ${format(max)}`;
  }
}
