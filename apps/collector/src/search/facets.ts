import { type Kysely, type RawBuilder, sql } from 'kysely';
import { type Static, Type } from 'typebox';
import { selectConverted } from '../money/conversion.ts';
import {
  findDistricts,
  getAncestor,
  getFilterName,
  getPlace,
  type Place,
  type PlaceKind,
} from '../places/gazetteer.ts';
import { choice, nullable } from '../schemas.ts';
import type { Tables } from '../tables.ts';
import { filterSchemas, type SearchFilters } from './filter-schemas.ts';
import { type ResolvedFilters, resolveFilters } from './filters.ts';
import { selectSample } from './sample.ts';
import {
  currencySchema,
  durationSchema,
  MAX_COUNTED_MATCHES,
  optionalQuerySchema,
} from './schemas.ts';

/** Number of values of a facet in a response, the most frequent ones. */
const MAX_VALUES = 50;

/**
 * Filters that each facet ignores, so that its counts show the alternatives to the chosen values. A facet ignores
 * `place_ids` only if they include a place of its kinds.
 */
const OWN_FILTERS = {
  deal_type: ['deal_type'],
  property_type: ['property_type'],
  city: ['city', 'place_ids'],
  district: ['district', 'place_ids'],
  region: ['region', 'place_ids'],
  source_slug: ['source_slug'],
  rooms: ['rooms_min', 'rooms_max'],
  features: [],
  has_images: ['has_images'],
} as const satisfies Record<string, readonly (keyof SearchFilters)[]>;

const OWN_HISTOGRAM_FILTERS = {
  price: ['price_min', 'price_max'],
  price_per_m2: ['price_per_m2_min', 'price_per_m2_max'],
  area_total: ['area_min', 'area_max'],
} as const satisfies Record<string, readonly (keyof SearchFilters)[]>;

type FacetName = keyof typeof OWN_FILTERS;
type HistogramName = keyof typeof OWN_HISTOGRAM_FILTERS;

/** Kinds of places of each facet of places, and the column with the name of an unknown place. */
const PLACE_FACETS = {
  city: { kinds: ['city'], key: 'city_key' },
  district: { kinds: ['district', 'raion'], key: 'district_key' },
  region: { kinds: ['region'], key: undefined },
} as const satisfies Partial<
  Record<FacetName, { kinds: readonly PlaceKind[]; key: string | undefined }>
>;

const isPlaceFacet = (name: string): name is keyof typeof PLACE_FACETS => name in PLACE_FACETS;

/** Preferred numbers of a decade (ISO 3, R10, rounded): the bounds of histograms, up to 8e17. */
const DECADE = [1, 1.25, 1.6, 2, 2.5, 3.2, 4, 5, 6.3, 8];
const HISTOGRAM_BOUNDS = Array.from({ length: 18 }, (_, exponent) => 10 ** exponent).flatMap(
  (power) => DECADE.map((number) => Number((number * power).toPrecision(3))),
);

/** Request of `/search/facets`. */
export const facetsRequestSchema = Type.Object(
  { query: optionalQuerySchema, ...filterSchemas },
  { $id: 'FacetsRequest', additionalProperties: false, examples: [{ city: 'Львів' }] },
);

export type FacetsRequest = Static<typeof facetsRequestSchema>;

const relationSchema = choice(['eq', 'gte'], {
  description: `\`gte\`: lower bounds, counted in ${MAX_COUNTED_MATCHES} of the matches.`,
});

export const facetSchema = Type.Object(
  {
    values: Type.Array(
      Type.Object({
        value: Type.String({
          description:
            'Value for the filter of this name. An unknown city or district has its name as listings write it.',
        }),
        count: Type.Integer(),
        place_id: Type.Optional(
          Type.Integer({
            description:
              'Value for `place_ids`, which finds exactly this place: districts of several cities may have one name.',
          }),
        ),
        city: Type.Optional(nullable(Type.String({ description: 'City of a district.' }))),
        region: Type.Optional(
          nullable(Type.String({ description: 'Region of a city or district.' })),
        ),
      }),
      { description: `The ${MAX_VALUES} most frequent values.` },
    ),
    relation: relationSchema,
  },
  { $id: 'Facet' },
);

export const histogramSchema = Type.Object(
  {
    buckets: Type.Array(
      Type.Object({
        from: Type.Number(),
        to: Type.Number({ description: 'Upper bound, not included.' }),
        count: Type.Integer(),
      }),
    ),
    relation: relationSchema,
  },
  { $id: 'Histogram' },
);

const facetReference = Type.Unsafe<Static<typeof facetSchema>>(Type.Ref('Facet'));
const histogramReference = Type.Unsafe<Static<typeof histogramSchema>>(Type.Ref('Histogram'));

const mapNames = <Name extends string, Schema>(names: Record<Name, unknown>, schema: Schema) =>
  // The keys are those of `names`.
  Object.fromEntries(Object.keys(names).map((name) => [name, schema])) as Record<Name, Schema>;

/** Counts of the matches by the values of filters. */
export const facetsResponseSchema = Type.Object(
  {
    total: Type.Object({ value: Type.Integer(), relation: relationSchema }),
    facets: Type.Object(mapNames(OWN_FILTERS, facetReference), {
      description: 'Each facet counts the matches of all filters except its own.',
    }),
    histograms: Type.Object(mapNames(OWN_HISTOGRAM_FILTERS, histogramReference), {
      description: 'Prices are in `currency`. Each histogram ignores its own filter.',
    }),
    currency: currencySchema,
    took_ms: durationSchema,
  },
  { $id: 'FacetsResponse' },
);

export type FacetsResponse = Static<typeof facetsResponseSchema>;

/** Number of listings with the same values in the columns of one facet or histogram; the other columns are null. */
type Group = Record<string, string | number | boolean | string[] | null> & {
  ignored_columns: number;
  count: number;
};

/**
 * Counts the matches of a search by the values of its filters, in at most `MAX_COUNTED_MATCHES` matches.
 * @throws ProblemError `validation_failed` if a filter is invalid.
 */
export async function countFacets(
  db: Kysely<Tables>,
  request: FacetsRequest,
): Promise<Omit<FacetsResponse, 'took_ms'>> {
  const { query, ...requestedFilters } = request;
  const filters = await resolveFilters(db, requestedFilters, { needsConversion: true });
  /** Names of the facets and histograms by the filters that they ignore. */
  const namesByIgnored = Map.groupBy(
    Object.entries({ ...OWN_FILTERS, ...OWN_HISTOGRAM_FILTERS }),
    ([facet, own]) => own.filter((name) => isOwnFilter(facet, name, filters)).join(),
  );
  const groupsByName = new Map<string, Group[]>();
  for (const [ignored, entries] of namesByIgnored) {
    const sampleFilters = omitFilters(filters, ignored.split(','));
    const sample = await selectSample(db, { query, filters: sampleFilters });
    const names = entries.map(([name]) => name);
    const counted = await countGroups(db, names, { sample, conversion: filters.conversion });
    for (const [name, groups] of counted) groupsByName.set(name, groups);
  }
  return { ...presentCounts(groupsByName), currency: filters.currency };
}

function isOwnFilter(facet: string, name: keyof SearchFilters, filters: ResolvedFilters): boolean {
  if (name !== 'place_ids' || !isPlaceFacet(facet)) return filters[name] !== undefined;
  const kinds: readonly PlaceKind[] = PLACE_FACETS[facet].kinds;
  return (
    filters.place_ids?.map(getPlace).some((place) => place && kinds.includes(place.kind)) === true
  );
}

function omitFilters(filters: ResolvedFilters, names: readonly string[]): ResolvedFilters {
  return Object.fromEntries(Object.entries(filters).filter(([name]) => !names.includes(name)));
}

/**
 * Counts the groups of several facets and histograms in one pass over a sample. The groups of each one have every listing
 * of the sample once.
 */
async function countGroups(
  db: Kysely<Tables>,
  names: readonly string[],
  { sample, conversion }: { sample: RawBuilder<unknown> } & Pick<ResolvedFilters, 'conversion'>,
): Promise<[name: string, groups: Group[]][]> {
  const columns = [...new Set(names.flatMap(listColumns))];
  const selected = columns.map(
    (column) => sql`${selectValue(column, conversion)} as ${sql.id(column)}`,
  );
  const sets = names.map((name) => sql`(${joinColumns(listColumns(name))})`);
  const { rows } = await sql<Group>`
    select grouping(${joinColumns(columns)}) as ignored_columns, ${joinColumns(columns)}, count(*)::integer as count
    from (select ${sql.join(selected)} from (${sample}) as listing) as sample
    group by grouping sets (${sql.join(sets)})`.execute(db);
  const rowsByColumns = Map.groupBy(rows, (row) => row.ignored_columns);
  return names.map((name) => {
    const groupColumns = listColumns(name);
    const ignoredColumns = columns.reduce(
      (bits, column) => bits * 2 + Number(!groupColumns.includes(column)),
      0,
    );
    return [name, rowsByColumns.get(ignoredColumns) ?? []];
  });
}

const joinColumns = (columns: readonly string[]) =>
  sql.join(columns.map((column) => sql.ref(column)));

/** Lists the columns by which the listings of a facet or histogram are counted. */
function listColumns(name: string): string[] {
  if (!isPlaceFacet(name)) return [name];
  return ['place_id', PLACE_FACETS[name].key].filter((column) => column !== undefined);
}

function selectValue(
  column: string,
  conversion: ResolvedFilters['conversion'],
): RawBuilder<unknown> {
  if (column === 'place_id') return sql`place_path[1]`;
  if (column === 'has_images') return sql`image_count > 0`;
  if (!(column in OWN_HISTOGRAM_FILTERS)) return sql.ref(column);
  const amount =
    column === 'area_total'
      ? sql`area_total::float8`
      : selectConverted(sql.ref(column), conversion);
  return sql`width_bucket(${amount}, ${HISTOGRAM_BOUNDS}::float8[])`;
}

function presentCounts(
  groupsByName: ReadonlyMap<string, Group[]>,
): Pick<FacetsResponse, 'total' | 'facets' | 'histograms'> {
  const present = <Content>(
    name: string,
    presentGroups: (groups: readonly Group[], size: number) => Content,
  ) => {
    const groups = groupsByName.get(name) ?? [];
    const size = groups.reduce((sum, { count }) => sum + count, 0);
    const relation = size >= MAX_COUNTED_MATCHES ? ('gte' as const) : ('eq' as const);
    return { ...presentGroups(groups, size), relation };
  };
  const facets = Object.keys(OWN_FILTERS).map((name) => [
    name,
    present(name, (groups) => ({ values: presentValues(name, groups) })),
  ]);
  const histograms = Object.keys(OWN_HISTOGRAM_FILTERS).map((name) => [
    name,
    present(name, (groups) => ({ buckets: presentBuckets(name, groups) })),
  ]);
  return {
    // No filter belongs to the features, so their groups have all matches.
    total: present('features', (_groups, value) => ({ value })),
    // The names are those of the schemas.
    facets: Object.fromEntries(facets) as FacetsResponse['facets'],
    histograms: Object.fromEntries(histograms) as Record<HistogramName, never>,
  };
}

function presentValues(name: string, groups: readonly Group[]) {
  const counts = new Map<Place | string, number>();
  for (const group of groups) {
    for (const value of listValues(name, group))
      counts.set(value, (counts.get(value) ?? 0) + group.count);
  }
  return [...counts]
    .map(([value, count]) =>
      typeof value === 'string' ? { value, count } : { ...presentPlace(value), count },
    )
    .toSorted((a, b) => b.count - a.count || (a.value < b.value ? -1 : 1))
    .slice(0, MAX_VALUES);
}

/**
 * Lists the values of a facet in a group of listings. Those of a facet of places are the places of its kinds that
 * contain the listings, or the written name of a place that the gazetteer does not have.
 */
function listValues(name: string, group: Group): (Place | string)[] {
  if (name === 'features') return (group['features'] as string[] | null) ?? [];
  if (!isPlaceFacet(name)) return group[name] === null ? [] : [String(group[name])];
  const { kinds, key }: { kinds: readonly PlaceKind[]; key: string | undefined } =
    PLACE_FACETS[name];
  const place = getPlace(group['place_id'] as number);
  const places = (place?.path ?? []).map(getPlace).filter((container) => container !== undefined);
  const values = places.filter(({ kind }) => kinds.includes(kind));
  const writtenName = key === undefined ? null : (group[key] as string | null);
  if (!writtenName || places.some(({ kind }) => kind === name)) return values;
  // The name may be that of a larger place, such as a raion.
  const isKnown = findDistricts(writtenName).some((container) => places.includes(container));
  return isKnown ? values : [...values, writtenName];
}

function presentPlace(place: Place) {
  const getName = (kind: PlaceKind) => getAncestor(place, kind)?.names.uk ?? null;
  const city = place.kind === 'district' ? { city: getName('city') } : {};
  return { value: getFilterName(place), place_id: place.id, ...city, region: getName('region') };
}

function presentBuckets(name: string, groups: readonly Group[]) {
  const counted = groups.filter((group) => group[name] !== null);
  const counts = new Map(counted.map((group) => [Number(group[name]), group.count]));
  const numbers = [...counts.keys()];
  const first = Math.min(...numbers);
  return Array.from(
    { length: numbers.length === 0 ? 0 : Math.max(...numbers) - first + 1 },
    (_, index) => {
      const bucket = first + index;
      return {
        from: HISTOGRAM_BOUNDS[bucket - 1] ?? 0,
        to: HISTOGRAM_BOUNDS[bucket] ?? Number.MAX_VALUE,
        count: counts.get(bucket) ?? 0,
      };
    },
  );
}
