import { formatVector } from '@oselya/db';
import { ModelError } from '@oselya/model';
import { type Kysely, type RawBuilder, sql, type SqlBool } from 'kysely';
import { problem } from '../errors.ts';
import type { Tables } from '../tables.ts';
import { estimateListings } from './estimate.ts';
import { type ResolvedFilters, whereFilters, whereFilterTerms } from './filters.ts';

/** Part of the model client that embeds queries. */
export type QueryEmbedder = {
  embed: (
    texts: readonly string[],
    options?: { signal?: AbortSignal },
  ) => Promise<{ vectors: number[][]; model: string }>;
};

/** Query vector in PostgreSQL syntax, and the model that created it. The model is null if unknown. */
export type QueryVector = { vector: string; embeddingModel: string | null };

/** Listing near a vector, and its group of likely duplicates. */
export type Neighbour = { id: number; distance: number; group: number | null };

/** Nearest-neighbour query. */
export type NearestQuery = QueryVector & {
  filters: ResolvedFilters;
  excludedId?: number | undefined;
  /** Excludes listings with a larger ID. */
  newestId?: number | undefined;
  limit: number;
  /** Estimated number of candidates up to which all distances are computed without the index. */
  exactSearchThreshold?: number | undefined;
  /** Estimated number of candidates above which an exact search never follows a search of the index. */
  maxExactCandidates?: number | undefined;
};

const DEFAULT_EXACT_SEARCH_THRESHOLD = 2000;

/**
 * Maximum number of candidates for an exact search after the index found too few. Before a backfill has finished, the
 * index may find few embeddings of the current model among a million listings.
 */
const DEFAULT_MAX_EXACT_CANDIDATES = 100_000;

/** Bounds for the HNSW setting `ef_search`. A larger value improves recall but takes longer. */
const EF_SEARCH_BOUNDS = { min: 200, max: 1000, perHit: 2 };

/** Number of distances that the database computes in the time of one neighbour visit by the index. */
const DISTANCES_PER_INDEX_VISIT = 4;

/**
 * Finds the listings with the smallest cosine distance to a vector; ties are ordered by ID. Ignores embeddings that are
 * known to be of another model, because their distances are meaningless.
 *
 * The index does not know the filters, so it visits many useless neighbours if few listings match. In that case, and if
 * the index finds too few listings among at most `maxExactCandidates`, all distances are computed.
 */
export async function findNearest(db: Kysely<Tables>, query: NearestQuery): Promise<Neighbour[]> {
  const {
    limit,
    filters,
    exactSearchThreshold = DEFAULT_EXACT_SEARCH_THRESHOLD,
    maxExactCandidates = DEFAULT_MAX_EXACT_CANDIDATES,
  } = query;
  const { listingCount, matchCount } = await estimateListings(db, filters);
  const expectedVisits = (limit * listingCount) / Math.max(1, matchCount);
  const isExactCheaper =
    exactSearchThreshold > 0 && matchCount <= expectedVisits * DISTANCES_PER_INDEX_VISIT;
  if (matchCount <= exactSearchThreshold || isExactCheaper) return searchExactly(db, query);
  const efSearch = Math.min(
    Math.max(EF_SEARCH_BOUNDS.min, limit * EF_SEARCH_BOUNDS.perHit),
    EF_SEARCH_BOUNDS.max,
  );
  const neighbours = await searchIndex(db, query, efSearch);
  return neighbours.length >= limit || matchCount > maxExactCandidates
    ? neighbours
    : searchExactly(db, query);
}

/** Returns the condition that a row of `property_listings` has an embedding to compare. */
function whereComparable({ embeddingModel, excludedId, newestId }: NearestQuery) {
  const conditions = [
    sql`embedding is not null`,
    ...(excludedId === undefined ? [] : [sql`property_listings.id <> ${excludedId}::bigint`]),
    ...(newestId === undefined ? [] : [sql`property_listings.id <= ${newestId}::bigint`]),
    ...(embeddingModel === null
      ? []
      : [sql`(embedding_model = ${embeddingModel} or embedding_model is null)`]),
  ];
  return sql<SqlBool>`${sql.join(conditions, sql` and `)}`;
}

/** Computes all distances. `materialized` keeps the planner from using the vector index. */
async function searchExactly(db: Kysely<Tables>, query: NearestQuery): Promise<Neighbour[]> {
  const { vector, limit, filters } = query;
  const { rows } = await sql<Neighbour>`
    with matches as materialized (
      select id, duplicate_group from listing_facts where ${whereFilterTerms(filters)}),
    candidates as materialized (
      select id, embedding <=> ${vector}::vector as distance, matches.duplicate_group as "group"
      from matches join property_listings using (id)
      where ${whereComparable(query)})
    select id, distance, "group" from candidates
    where distance <> 'NaN' order by distance, id limit ${limit}
  `.execute(db);
  return rows;
}

/**
 * Returns the distance of a row's embedding to a vector with numbers of half the size, as the vector index sorts by it.
 * @param vector Vector in PostgreSQL syntax.
 */
export function computeIndexedDistance(vector: string): RawBuilder<number> {
  const type = sql.raw(`halfvec(${vector.split(',').length})`);
  return sql`embedding::${type} <=> ${vector}::${type}`;
}

/**
 * Searches the vector index in relaxed order, because strict order misses one near neighbour in twenty with selective
 * filters. The settings are local to the transaction. The search reads them, so PostgreSQL applies them first.
 */
async function searchIndex(
  db: Kysely<Tables>,
  query: NearestQuery,
  efSearch: number,
): Promise<Neighbour[]> {
  const { vector, limit, filters } = query;
  const { rows } = await sql<Neighbour>`
    select neighbour.* from (
      select set_config('hnsw.iterative_scan', 'relaxed_order', true) as scan,
        set_config('hnsw.ef_search', ${String(efSearch)}, true) as view) as setting
    cross join lateral (
      select id, embedding <=> ${vector}::vector as distance, duplicate_group as "group"
      from property_listings
      where setting.scan = 'relaxed_order' and setting.view <> '' and ${whereComparable(query)}
        and exists (
          select from listing_facts
          where listing_facts.id = property_listings.id and ${whereFilters(filters)} offset 0)
      order by ${computeIndexedDistance(vector)}, id limit ${limit}) as neighbour
    order by distance, id`.execute(db);
  return rows;
}

/**
 * Scales a vector to unit length, so that each element fits the single precision of the column. Cosine distance ignores
 * length.
 * @returns The vector in PostgreSQL syntax; undefined if all elements are zero or one is not finite.
 */
export function toUnitVector(vector: readonly number[]): string | undefined {
  const maxMagnitude = vector.reduce((maximum, element) => Math.max(maximum, Math.abs(element)), 0);
  if (maxMagnitude === 0 || !Number.isFinite(maxMagnitude)) return undefined;
  const scaledVector = vector.map((element) => element / maxMagnitude);
  const vectorLength = Math.hypot(...scaledVector);
  return formatVector(scaledVector.map((element) => element / vectorLength));
}

/**
 * Embeds a query. Specification 001, Errors.
 * @param text Query with at least one word.
 * @throws ProblemError `model_unavailable` (503) if a later retry may succeed, otherwise `model_failed` (502).
 */
export async function embedQuery(
  model: QueryEmbedder,
  text: string,
  signal: AbortSignal,
): Promise<QueryVector> {
  const { vectors, model: embeddingModel } = await model
    .embed([text], { signal })
    .catch((cause: unknown) => {
      if (!(cause instanceof ModelError)) throw cause;
      // If this process is stopping, another process may still respond.
      const isTemporary = ['MODEL_CLOSED', 'MODEL_ABORTED'].includes(cause.code) || cause.retryable;
      throw isTemporary
        ? problem('model_unavailable', { cause, headers: { 'retry-after': '5' } })
        : problem('model_failed', { cause });
    });
  const vector = toUnitVector(vectors[0] ?? []);
  if (vector !== undefined) return { vector, embeddingModel };
  const cause = new Error('The model gave an embedding without a direction');
  throw problem('model_failed', { cause });
}
