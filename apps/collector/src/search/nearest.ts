import { toVector } from '@oselya/db';
import { type ModelClient, ModelError } from '@oselya/model';
import { type Expression, expressionBuilder, type Kysely, sql, type SqlBool } from 'kysely';
import { problem } from '../errors.ts';
import type { Tables } from '../tables.ts';
import { whereFilterTerms, whereFilters, listPartitions } from './filters.ts';
import type { SearchFilters } from './schemas.ts';

/** The part of the model client that search needs. */
export type QueryEmbedder = Pick<ModelClient, 'embed'>;

/** A vector to search around, as PostgreSQL writes it, and the model that made it; null where that is unknown. */
export type QueryVector = { vector: string; embeddingModel: string | null };

/** A listing near a vector, and its group of likely duplicates. */
export type Neighbour = { id: number; distance: number; group: number | null };

type Query = QueryVector & {
  filters: SearchFilters;
  /** A listing that is left out. */
  exclude?: number | undefined;
  /** Later listings are left out. */
  newestId?: number | undefined;
  limit: number;
  /** Up to how many candidates the index is not used. */
  exactMatches?: number | undefined;
  /** Past how many candidates the index alone decides. */
  maxExact?: number | undefined;
};

/** Up to so many listings that pass the filters, all distances are computed in any case. */
const EXACT_MATCHES = 2000;

/**
 * The most distances to compute where the index finds too few. So many candidates mean that most embeddings are still of
 * another model, and a search must not read a million listings until the backfill has finished.
 */
const MAX_EXACT = 100_000;

/** The neighbours that the index keeps in view, at least and at most: more find more of the true nearest, and take longer. */
const INDEX_VIEW = { min: 200, max: 1000 };
const VIEW_FACTOR = 2;

/** The distances that can be computed in the time in which the index visits one more neighbour. */
const INDEX_COST = 4;

/**
 * Finds the listings whose embeddings are nearest to a vector by cosine distance, ties by id.
 *
 * The index walks outwards from the vector and does not know the filters: with a filter that one listing in a hundred
 * passes, it visits a hundred neighbours for each that is found. Where few listings pass, or it found too few, all
 * distances are computed. Embeddings of other models are left out: distances between models mean nothing.
 */
export async function findNearest(db: Kysely<Tables>, query: Query): Promise<Neighbour[]> {
  const { limit, filters, exactMatches = EXACT_MATCHES, maxExact = MAX_EXACT } = query;
  const { all, passing } = await estimateListings(db, filters);
  const visited = (limit * all) / Math.max(1, passing);
  const isExactCheaper = exactMatches > 0 && passing <= visited * INDEX_COST;
  if (passing <= exactMatches || isExactCheaper) return searchExactly(db, query);
  const view = Math.min(Math.max(INDEX_VIEW.min, limit * VIEW_FACTOR), INDEX_VIEW.max);
  const found = await searchIndex(db, query, view);
  return found.length >= limit || passing > maxExact ? found : searchExactly(db, query);
}

type Explained = { 'QUERY PLAN': [{ Plan: { Plans: { 'Plan Rows': number }[] } }] };

/** The numbers of all listings and of those that pass the filters, as the planner estimates: counting takes too long. */
async function estimateListings(
  db: Kysely<Tables>,
  filters: SearchFilters,
): Promise<{ all: number; passing: number }> {
  const every = db.selectFrom('property_listings').select('id');
  const query = every.unionAll(every.where(whereFilters(filters)));
  const { rows } = await sql<Explained>`explain (format json) ${query}`.execute(db);
  const [all = 0, passing = 0] =
    rows[0]?.['QUERY PLAN'][0].Plan.Plans.map((plan) => plan['Plan Rows']) ?? [];
  return { all, passing: Math.min(all, passing) };
}

function isCandidate({ embeddingModel, exclude, newestId }: Query): Expression<SqlBool> {
  const eb = expressionBuilder<Tables, 'property_listings'>();
  const conditions: Expression<SqlBool>[] = [eb('embedding', 'is not', null)];
  if (exclude !== undefined) conditions.push(eb('id', '<>', exclude));
  if (newestId !== undefined) conditions.push(eb('id', '<=', newestId));
  if (embeddingModel !== null) {
    conditions.push(
      eb.or([eb('embedding_model', '=', embeddingModel), eb('embedding_model', 'is', null)]),
    );
  }
  return eb.and(conditions);
}

/** Computes all distances: "materialized" keeps the planner from using the index after all. */
async function searchExactly(db: Kysely<Tables>, query: Query): Promise<Neighbour[]> {
  const { vector, limit, filters } = query;
  const parts = listPartitions(filters).map(
    (part) => sql`
      select id, embedding <=> ${vector}::vector as distance, duplicate_group as "group"
      from property_listings
      where ${part} and ${whereFilterTerms(filters)} and ${isCandidate(query)}`,
  );
  const { rows } = await sql<Neighbour>`
    with candidates as materialized (${sql.join(parts, sql` union all `)})
    select id, distance, "group" from candidates
    where distance <> 'NaN' order by distance, id limit ${limit}
  `.execute(db);
  return rows;
}

/**
 * Uses the index, in relaxed order: the strict one leaves out nearer neighbours that are found late, one in twenty with
 * selective filters. The settings are local to the statement; that the search reads them makes them apply before it.
 */
async function searchIndex(db: Kysely<Tables>, query: Query, view: number): Promise<Neighbour[]> {
  const { vector, limit, filters } = query;
  const { rows } = await sql<Neighbour>`
    select near.* from (
      select set_config('hnsw.iterative_scan', 'relaxed_order', true) as scan,
        set_config('hnsw.ef_search', ${String(view)}, true) as view) as setting
    cross join lateral (
      select id, embedding <=> ${vector}::vector as distance, duplicate_group as "group"
      from property_listings
      where setting.scan = 'relaxed_order' and setting.view <> ''
        and ${whereFilters(filters)} and ${isCandidate(query)}
      order by distance, id limit ${limit}) as near
    order by distance, id`.execute(db);
  return rows;
}

/**
 * Scales a vector to unit length, so that each element fits the four bytes of its column; cosine distance ignores length.
 * @returns Undefined for a vector of zeros, or with an element that is no finite number.
 */
export function toUnitVector(vector: readonly number[]): string | undefined {
  const largest = vector.reduce((most, element) => Math.max(most, Math.abs(element)), 0);
  if (largest === 0 || !Number.isFinite(largest)) return undefined;
  const scaled = vector.map((element) => element / largest);
  const length = Math.hypot(...scaled);
  return toVector(scaled.map((element) => element / length));
}

/**
 * Embeds a query.
 * @param text Has at least one word.
 * @throws ProblemError `model_unavailable` (503) where the same search may succeed later, else `model_failed` (502).
 *   Specification 001, Errors.
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
      // A process that stops leaves others that can answer.
      const mayPass = ['MODEL_CLOSED', 'MODEL_ABORTED'].includes(cause.code) || cause.retryable;
      throw mayPass
        ? problem('model_unavailable', { cause, headers: { 'retry-after': '5' } })
        : problem('model_failed', { cause });
    });
  const vector = toUnitVector(vectors[0] ?? []);
  if (vector !== undefined) return { vector, embeddingModel };
  const cause = new Error('The model gave an embedding without a direction');
  throw problem('model_failed', { cause });
}
