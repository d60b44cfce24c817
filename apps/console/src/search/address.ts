/** Kinds of values of the filters in an address. */
const FILTERS = {
  deal_type: 'texts',
  property_type: 'texts',
  city: 'texts',
  district: 'texts',
  region: 'texts',
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
  price_dropped_since: 'text',
  first_seen_since: 'text',
  include_archived: 'flag',
} as const;

type Values = { text: string; texts: string[]; number: number; flag: true };
export type FilterName = keyof typeof FILTERS;
export type Filters = { -readonly [Name in FilterName]?: Values[(typeof FILTERS)[Name]] };

/** Filters that take several values. */
export type ListFilterName = {
  [Name in FilterName]: (typeof FILTERS)[Name] extends 'texts' ? Name : never;
}[FilterName];

export const ORDERS = [
  'newest',
  'price_asc',
  'price_desc',
  'price_per_m2_asc',
  'area_desc',
] as const;
export type Order = (typeof ORDERS)[number];

export const MODES = ['hybrid', 'words', 'meaning'] as const;
export type Mode = (typeof MODES)[number];

/** Search of an address: words with their mode, filters, and the order of searches without words. */
export type Search = { q?: string; mode?: Mode; sort?: Order } & Filters;

/** Changes of a search. An undefined member is removed. */
export type SearchChanges = { [Name in keyof Search]?: Search[Name] | undefined };

/** Reads a search from the parameters of an address. Invalid values are left out. */
export function readSearch(params: URLSearchParams): Search {
  const q = params.get('q')?.trim();
  const mode = MODES.find((known) => known === params.get('mode'));
  const sort = ORDERS.find((known) => known === params.get('sort'));
  const filters = Object.entries(FILTERS).flatMap(([name, kind]) => {
    const value = readValue(kind, params.getAll(name));
    return value === undefined ? [] : [[name, value] as const];
  });
  return {
    ...(q && { q }),
    ...(mode && mode !== 'hybrid' && { mode }),
    ...(sort && sort !== 'newest' && { sort }),
    ...(Object.fromEntries(filters) as Filters),
  };
}

function readValue(kind: keyof Values, texts: readonly string[]): Values[keyof Values] | undefined {
  const values = texts.map((text) => text.trim()).filter((text) => text !== '');
  if (values.length === 0) return undefined;
  if (kind === 'text') return values[0];
  if (kind === 'texts') return values;
  if (kind === 'number') return values.map(Number).find(Number.isFinite);
  return values.includes('true') ? true : undefined;
}

/** Writes a search as the parameters of an address, in a constant order, so that equal searches have equal addresses. */
export function writeSearch(search: SearchChanges): URLSearchParams {
  const { q, mode, sort, ...filters } = search;
  const params = new URLSearchParams();
  if (q) params.set('q', q);
  if (mode && mode !== 'hybrid') params.set('mode', mode);
  for (const name of Object.keys(FILTERS) as FilterName[]) {
    for (const value of [filters[name] ?? []].flat()) params.append(name, String(value));
  }
  if (sort && sort !== 'newest') params.set('sort', sort);
  return params;
}

/** Returns the request of a page of a search: by words and meaning, or without words in an order. */
export function createRequest(
  { q, mode = 'hybrid', sort, ...filters }: Search,
  { limit, cursor }: { limit: number; cursor?: string },
): { path: string; body: object } {
  const body = { ...filters, fold_duplicates: true, limit, ...(cursor && { cursor }) };
  if (q === undefined)
    return { path: '/listings/browse', body: { ...body, ...(sort && { sort }) } };
  const search = { ...body, mode, query: q };
  // The nearest listings have no passage with words.
  return {
    path: '/listings/search',
    body: mode === 'meaning' ? search : { ...search, highlight: true },
  };
}
