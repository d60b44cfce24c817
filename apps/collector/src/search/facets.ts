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

const isHistogram = (name: string): name is HistogramName => name in OWN_HISTOGRAM_FILTERS;

// The keys are those of the two objects.
const FACET_NAMES = Object.keys({ ...OWN_FILTERS, ...OWN_HISTOGRAM_FILTERS }) as (
  | FacetName
  | HistogramName
)[];

/** Name under which the matches of all filters are counted. */
const TOTAL = 'total' as const;

/** Request of `/search/facets`. */
export const facetsRequestSchema = Type.Object(
  {
    query: optionalQuerySchema,
    ...filterSchemas,
    facets: Type.Optional(
      Type.Array(choice(FACET_NAMES), {
        minItems: 1,
        uniqueItems: true,
        description: 'Names of the facets to count; all of them by default.',
      }),
    ),
  },
  {
    $id: 'FacetsRequest',
    additionalProperties: false,
    examples: [{ city: 'Львів', facets: ['district', 'rooms', 'price'] }],
  },
);

export type FacetsRequest = Static<typeof facetsRequestSchema>;

/** The most frequent values of a filter. */
export const facetSchema = Type.Array(
  Type.Object({
    value: Type.Union([Type.String(), Type.Integer(), Type.Boolean()], {
      description:
        'Value for the filter of this name; for `rooms` an integer, and for `has_images` a boolean. An unknown city or ' +
        'district has its name as listings write it.',
    }),
    count: Type.Integer(),
    place_id: Type.Optional(
      Type.Integer({
        description:
          'Value for `place_ids`, which finds exactly this place: districts of several cities may have one name.',
      }),
    ),
    city: Type.Optional(nullable(Type.String({ description: 'City of a district.' }))),
    region: Type.Optional(nullable(Type.String({ description: 'Region of a city or district.' }))),
  }),
  { $id: 'Facet', description: `The ${MAX_VALUES} most frequent values.` },
);

/** Numbers of matches by ranges of a number. */
export const histogramSchema = Type.Object(
  {
    buckets: Type.Array(
      Type.Object({
        from: Type.Number(),
        to: Type.Number({ description: 'Upper bound, not included.' }),
        count: Type.Integer(),
      }),
    ),
  },
  { $id: 'Histogram', description: 'Prices are in `currency`.' },
);

type Facet = Static<typeof facetSchema>;
type Histogram = Static<typeof histogramSchema>;

const mapNames = <Name extends string, Schema>(names: Record<Name, unknown>, schema: Schema) =>
  // The keys are those of `names`.
  Object.fromEntries(Object.keys(names).map((name) => [name, schema])) as Record<Name, Schema>;

const relationSchema = choice(['eq', 'gte'], {
  description: `\`gte\`: lower bounds, counted in ${MAX_COUNTED_MATCHES} of the matches.`,
});

/** Counts of the matches by the values of filters. */
export const facetsResponseSchema = Type.Object(
  {
    facets: Type.Object(
      {
        ...mapNames(OWN_FILTERS, Type.Optional(Type.Unsafe<Facet>(Type.Ref('Facet')))),
        ...mapNames(
          OWN_HISTOGRAM_FILTERS,
          Type.Optional(Type.Unsafe<Histogram>(Type.Ref('Histogram'))),
        ),
      },
      {
        description:
          'The requested facets. Each facet counts the matches of all filters except its own.',
      },
    ),
    total: Type.Object({ value: Type.Integer(), relation: relationSchema }),
    relation: choice(['eq', 'gte'], {
      description: '`gte` if the counts of at least one facet are lower bounds.',
    }),
    currency: currencySchema,
    took_ms: durationSchema,
  },
  { $id: 'FacetsResponse' },
);

export type FacetsResponse = Static<typeof facetsResponseSchema>;

type Value = Facet[number]['value'];

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
  const { query, facets: requestedNames = FACET_NAMES, ...requestedFilters } = request;
  const filters = await resolveFilters(db, requestedFilters, { needsConversion: true });
  /** Names of the facets by the filters that they ignore. */
  const namesByIgnored = Map.groupBy([...requestedNames, TOTAL], (facet) =>
    listOwnFilters(facet)
      .filter((name) => isOwnFilter(facet, name, filters))
      .join(),
  );
  const groupsByName = new Map<string, Group[]>();
  for (const [ignored, names] of namesByIgnored) {
    const sampleFilters = omitFilters(filters, ignored.split(','));
    const sample = await selectSample(db, { query, filters: sampleFilters });
    const counted = await countGroups(db, names, { sample, conversion: filters.conversion });
    for (const [name, groups] of counted) groupsByName.set(name, groups);
  }
  const sizes = Array.from(groupsByName.values(), sumCounts);
  const total = sumCounts(groupsByName.get(TOTAL) ?? []);
  const facets = requestedNames.map((name) => {
    const groups = groupsByName.get(name) ?? [];
    return [name, isHistogram(name) ? presentBuckets(name, groups) : presentValues(name, groups)];
  });
  return {
    // The names are those of the schemas.
    facets: Object.fromEntries(facets) as FacetsResponse['facets'],
    total: { value: total, relation: getRelation(total) },
    relation: getRelation(Math.max(...sizes)),
    currency: filters.currency,
  };
}

const sumCounts = (groups: readonly Group[]) => groups.reduce((sum, { count }) => sum + count, 0);

const getRelation = (count: number) => (count >= MAX_COUNTED_MATCHES ? 'gte' : 'eq');

function listOwnFilters(name: FacetName | HistogramName | typeof TOTAL) {
  if (name === TOTAL) return [];
  return isHistogram(name) ? OWN_HISTOGRAM_FILTERS[name] : OWN_FILTERS[name];
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
  if (column === TOTAL) return sql`true`;
  if (!isHistogram(column)) return sql.ref(column);
  const amount =
    column === 'area_total'
      ? sql`area_total::float8`
      : selectConverted(sql.ref(column), conversion);
  return sql`width_bucket(${amount}, ${HISTOGRAM_BOUNDS}::float8[])`;
}

function presentValues(name: FacetName, groups: readonly Group[]): Facet {
  const counts = new Map<Place | Value, number>();
  for (const group of groups) {
    for (const value of listValues(name, group))
      counts.set(value, (counts.get(value) ?? 0) + group.count);
  }
  return [...counts]
    .map(([value, count]) =>
      typeof value === 'object' ? { ...presentPlace(value), count } : { value, count },
    )
    .toSorted((a, b) => b.count - a.count || (a.value < b.value ? -1 : 1))
    .slice(0, MAX_VALUES);
}

/**
 * Lists the values of a facet in a group of listings. Those of a facet of places are the places of its kinds that
 * contain the listings, or the written name of a place that the gazetteer does not have.
 */
function listValues(name: FacetName, group: Group): (Place | Value)[] {
  if (name === 'features') return (group['features'] as string[] | null) ?? [];
  if (!isPlaceFacet(name)) {
    const value = group[name] as Value | null;
    return value === null ? [] : [value];
  }
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

function presentBuckets(name: HistogramName, groups: readonly Group[]): Histogram {
  const counted = groups.filter((group) => group[name] !== null);
  const counts = new Map(counted.map((group) => [Number(group[name]), group.count]));
  const numbers = [...counts.keys()];
  const first = Math.min(...numbers);
  const length = numbers.length === 0 ? 0 : Math.max(...numbers) - first + 1;
  const buckets = Array.from({ length }, (_, index) => {
    const bucket = first + index;
    return {
      from: HISTOGRAM_BOUNDS[bucket - 1] ?? 0,
      to: HISTOGRAM_BOUNDS[bucket] ?? Number.MAX_VALUE,
      count: counts.get(bucket) ?? 0,
    };
  });
  return { buckets };
}
