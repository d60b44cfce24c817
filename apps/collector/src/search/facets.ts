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
  city: { kinds: ['city'], key: sql`city_key` },
  district: { kinds: ['district', 'raion'], key: sql`district_key` },
  region: { kinds: ['region'], key: sql`null::text` },
} as const satisfies Partial<
  Record<FacetName, { kinds: readonly PlaceKind[]; key: RawBuilder<unknown> }>
>;
type PlaceFacetName = keyof typeof PLACE_FACETS;

const isPlaceFacet = (name: string): name is PlaceFacetName => name in PLACE_FACETS;

/** SQL expression of each other facet's values, which may be several for a listing. */
const FACET_VALUES: Record<Exclude<FacetName, PlaceFacetName>, RawBuilder<unknown>> = {
  deal_type: sql`deal_type`,
  property_type: sql`property_type`,
  source_slug: sql`source_slug`,
  rooms: sql`rooms::text`,
  features: sql`unnest(features)`,
  has_images: sql`(image_count > 0)::text`,
};

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

type CountRow = { name: string; value: string | null; count: number };

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
  const samples: RawBuilder<unknown>[] = [];
  const counts: RawBuilder<unknown>[] = [];
  /** Names of the facets and histograms by the filters that they ignore. */
  const namesByIgnored = Map.groupBy(
    Object.entries({ total: [], ...OWN_FILTERS, ...OWN_HISTOGRAM_FILTERS }),
    ([facet, own]) => own.filter((name) => isOwnFilter(facet, name, filters)).join(),
  );
  for (const [ignored, entries] of namesByIgnored) {
    const sampleName = sql.id(`sample_${samples.length}`);
    const sampleFilters = omitFilters(filters, ignored.split(','));
    const sample = await selectSample(db, { query, filters: sampleFilters });
    samples.push(sql`${sampleName} as materialized (${sample})`);
    counts.push(...entries.map(([name]) => selectCounts(name, sampleName, filters)));
    counts.push(sql`select ${`relation:${entries.map(([name]) => name).join()}`} as name, null as value,
      count(*) from ${sampleName}`);
  }
  const { rows } = await sql<CountRow>`
    with ${sql.join(samples)}
    select name, value, count::integer as count from (${sql.join(counts, sql` union all `)}) as counted
    where count > 0 order by count desc, value`.execute(db);
  return { ...presentCounts(rows), currency: filters.currency };
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

/** Selects the counts of one facet or histogram in a sample, as rows of `CountRow`. */
function selectCounts(
  name: string,
  sample: RawBuilder<unknown>,
  { conversion }: ResolvedFilters,
): RawBuilder<unknown> {
  if (name === 'total') return sql`select 'total' as name, null as value, count(*) from ${sample}`;
  if (isPlaceFacet(name)) {
    const columns = sql`place_path, ${PLACE_FACETS[name].key}`;
    return sql`select ${name} as name, jsonb_build_array(${columns})::text as value, count(*) from ${sample}
      group by ${columns}`;
  }
  const value =
    name in FACET_VALUES
      ? FACET_VALUES[name as keyof typeof FACET_VALUES]
      : selectBucket(name, conversion);
  return sql`select ${name} as name, value, count(*) from (select ${value} as value from ${sample}) as listed
    where value is not null group by value`;
}

function selectBucket(name: string, conversion: ResolvedFilters['conversion']) {
  const amount =
    name === 'area_total' ? sql`area_total::float8` : selectConverted(sql.ref(name), conversion);
  return sql`width_bucket(${amount}, ${HISTOGRAM_BOUNDS}::float8[])::text`;
}

function presentCounts(
  rows: readonly CountRow[],
): Pick<FacetsResponse, 'total' | 'facets' | 'histograms'> {
  const rowsByName = Map.groupBy(rows, ({ name }) => name);
  const boundedNames = new Set(
    rows
      .filter(({ name, count }) => name.startsWith('relation:') && count >= MAX_COUNTED_MATCHES)
      .flatMap(({ name }) => name.slice('relation:'.length).split(',')),
  );
  const getRelation = (name: string) => (boundedNames.has(name) ? 'gte' : 'eq');
  const facets = Object.keys(OWN_FILTERS).map((name) => {
    const facetRows = rowsByName.get(name) ?? [];
    const values = isPlaceFacet(name)
      ? presentPlaces(name, facetRows)
      : facetRows.map(({ value, count }) => ({ value, count }));
    return [name, { values: values.slice(0, MAX_VALUES), relation: getRelation(name) }];
  });
  const histograms = Object.keys(OWN_HISTOGRAM_FILTERS).map((name) => [
    name,
    { buckets: presentBuckets(rowsByName.get(name) ?? []), relation: getRelation(name) },
  ]);
  return {
    total: { value: rowsByName.get('total')?.[0]?.count ?? 0, relation: getRelation('total') },
    // The names are those of the schemas.
    facets: Object.fromEntries(facets) as FacetsResponse['facets'],
    histograms: Object.fromEntries(histograms) as Record<HistogramName, never>,
  };
}

/**
 * Presents the values of a facet of places: the places of its kinds in the path of a listing, or the written name of a
 * place that the gazetteer does not have.
 */
function presentPlaces(facet: PlaceFacetName, rows: readonly CountRow[]) {
  const kinds: readonly PlaceKind[] = PLACE_FACETS[facet].kinds;
  const counts = new Map<Place | string, number>();
  for (const { value, count } of rows) {
    const [path, key] = JSON.parse(value ?? '[]') as [path: number[] | null, key: string | null];
    const places = (path ?? []).map(getPlace).filter((place) => place !== undefined);
    const values: (Place | string)[] = places.filter(({ kind }) => kinds.includes(kind));
    const hasPlace = places.some(({ kind }) => kind === facet);
    // The name may be that of a larger place, such as a raion.
    const isKnown = (name: string) => findDistricts(name).some((place) => places.includes(place));
    if (key && !hasPlace && !isKnown(key)) values.push(key);
    for (const item of values) counts.set(item, (counts.get(item) ?? 0) + count);
  }
  return [...counts]
    .toSorted(([, a], [, b]) => b - a)
    .map(([place, count]) =>
      typeof place === 'string' ? { value: place, count } : { ...presentPlace(place), count },
    );
}

function presentPlace(place: Place) {
  const getName = (kind: PlaceKind) => getAncestor(place, kind)?.names.uk ?? null;
  const city = place.kind === 'district' ? { city: getName('city') } : {};
  return { value: getFilterName(place), place_id: place.id, ...city, region: getName('region') };
}

function presentBuckets(rows: readonly CountRow[]) {
  const counts = new Map(rows.map(({ value, count }) => [Number(value), count]));
  const numbers = [...counts.keys()];
  const first = Math.min(...numbers);
  return Array.from(
    { length: rows.length === 0 ? 0 : Math.max(...numbers) - first + 1 },
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
