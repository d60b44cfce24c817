/** Kinds of values of the filters in an address. */
const FILTERS = {
  deal_type: 'text',
  property_type: 'texts',
  city: 'texts',
  district: 'texts',
  region: 'texts',
  place_ids: 'numbers',
  source_slug: 'texts',
  currency: 'text',
  price_min: 'number',
  price_max: 'number',
  price_per_m2_min: 'number',
  price_per_m2_max: 'number',
  rooms_min: 'number',
  rooms_max: 'number',
  area_min: 'number',
  area_max: 'number',
  floor_min: 'number',
  floor_max: 'number',
  not_first_floor: 'flag',
  not_last_floor: 'flag',
  features: 'texts',
  has_images: 'flag',
  price_fell_since: 'text',
  first_seen_since: 'text',
} as const;

type Values = { text: string; texts: string[]; number: number; numbers: number[]; flag: true };
export type FilterName = keyof typeof FILTERS;
export type Filters = { -readonly [Name in FilterName]?: Values[(typeof FILTERS)[Name]] };

export const ORDERS = [
  'newest',
  'price_asc',
  'price_desc',
  'price_per_m2_asc',
  'price_per_m2_desc',
  'area_asc',
  'area_desc',
] as const;
export type Order = (typeof ORDERS)[number];

/** Search of an address: words, filters and the order of searches without words. */
export type Search = { q?: string; sort?: Order } & Filters;

/** Reads a search from the parameters of an address. Invalid values are left out. */
export function readSearch(params: URLSearchParams): Search {
  const q = params.get('q')?.trim();
  const sort = ORDERS.find((order) => order === params.get('sort'));
  const filters = Object.entries(FILTERS).flatMap(([name, kind]) => {
    const value = readValue(kind, params.getAll(name));
    return value === undefined ? [] : [[name, value] as const];
  });
  return { ...(q && { q }), ...(sort && { sort }), ...(Object.fromEntries(filters) as Filters) };
}

function readValue(kind: keyof Values, texts: readonly string[]): Values[keyof Values] | undefined {
  const values = texts.map((text) => text.trim()).filter((text) => text !== '');
  const numbers = values.map(Number).filter(Number.isFinite);
  switch (kind) {
    case 'text':
      return values[0];
    case 'texts':
      return values.length === 0 ? undefined : values;
    case 'number':
      return numbers[0];
    case 'numbers':
      return numbers.length === 0 ? undefined : numbers;
    case 'flag':
      return values.includes('true') ? true : undefined;
  }
}

/** Writes a search as the parameters of an address, in a constant order, so that equal searches have equal addresses. */
export function writeSearch(search: Search): URLSearchParams {
  const { q, sort, ...filters } = search;
  const params = new URLSearchParams();
  if (q) params.set('q', q);
  for (const name of Object.keys(FILTERS) as FilterName[]) {
    for (const value of [filters[name] ?? []].flat()) params.append(name, String(value));
  }
  if (sort && sort !== 'newest') params.set('sort', sort);
  return params;
}

/** Returns the request of a search: by words and meaning, or without words in an order. */
export function createRequest({ q, sort, ...filters }: Search): { path: string; body: object } {
  const folded = { ...filters, fold_duplicates: true };
  return q
    ? { path: '/listings/search/hybrid', body: { ...folded, query: q, highlight: true } }
    : { path: '/listings/search/browse', body: { ...folded, ...(sort && { sort }) } };
}
