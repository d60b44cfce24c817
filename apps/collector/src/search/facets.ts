import { type Kysely, type RawBuilder, sql } from 'kysely';
import { type Static, Type } from 'typebox';
import { selectConverted } from '../money/conversion.ts';
import { getAncestor, getFilterName, getPlace, type PlaceKind } from '../places/gazetteer.ts';
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

/** Filters that each facet ignores, so that its counts show the alternatives to the chosen values. */
const OWN_FILTERS = {
  deal_type: ['deal_type'],
  property_type: ['property_type'],
  city: ['city'],
  district: ['district'],
  region: ['region'],
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

/** SQL expression of each facet's values, which may be several for a listing. */
const FACET_VALUES: Record<FacetName, RawBuilder<unknown>> = {
  deal_type: sql`deal_type`,
  property_type: sql`property_type`,
  // The gazetteer knows which of the places are cities.
  city: sql`unnest(coalesce(place_path::text[], array['key:' || city_key]))`,
  district: sql`unnest(place_path)::text`,
  region: sql`unnest(place_path)::text`,
  source_slug: sql`source_slug`,
  rooms: sql`rooms::text`,
  features: sql`unnest(features)`,
  has_images: sql`(image_count > 0)::text`,
};

/** Preferred numbers of a decade (ISO 3, R10, rounded): the bounds of histograms. */
const DECADE = [1, 1.25, 1.6, 2, 2.5, 3.2, 4, 5, 6.3, 8];
const HISTOGRAM_BOUNDS = Array.from({ length: 13 }, (_, exponent) => 10 ** exponent).flatMap(
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
        value: Type.String({ description: 'Value for the filter.' }),
        count: Type.Integer(),
        place_id: Type.Optional(Type.Integer()),
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
    ([, own]) => own.filter((name) => filters[name] !== undefined).join(),
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
  const value =
    name in FACET_VALUES ? FACET_VALUES[name as FacetName] : selectBucket(name, conversion);
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
    const values = presentValues(name as FacetName, rowsByName.get(name) ?? []);
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

const PLACE_KINDS: Partial<Record<FacetName, readonly PlaceKind[]>> = {
  city: ['city'],
  district: ['district', 'raion'],
  region: ['region'],
};

/** Presents the values of a facet. Those of a place facet are IDs of places, and keys of unknown ones. */
function presentValues(name: FacetName, rows: readonly CountRow[]) {
  const kinds = PLACE_KINDS[name];
  return rows.flatMap(({ value, count }) => {
    if (value === null) return [];
    if (kinds === undefined) return [{ value, count }];
    if (value.startsWith('key:')) return [{ value: value.slice('key:'.length), count }];
    const place = getPlace(Number(value));
    if (place === undefined || !kinds.includes(place.kind)) return [];
    const region = getAncestor(place, 'region')?.names.uk ?? null;
    return [{ value: getFilterName(place), count, place_id: place.id, region }];
  });
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
        to: HISTOGRAM_BOUNDS[bucket] ?? 1e14,
        count: counts.get(bucket) ?? 0,
      };
    },
  );
}
