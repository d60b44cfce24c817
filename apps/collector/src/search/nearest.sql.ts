import { type Expression, expressionBuilder, type Kysely, sql, type SqlBool } from 'kysely';
import type { Tables } from '../tables.ts';
import { estimateListings } from './estimate.sql.ts';
import { hasFilterTerms, partsOf } from './filter-terms.sql.ts';
import { matchesFilters } from './filters.sql.ts';
import type { QueryVector } from './query-vector.ts';
import type { SearchFilters } from './schemas.ts';

/** A listing near a vector, and its group of likely duplicates where it is in one. */
export type Neighbour = { id: number; distance: number; group: number | null };

type Query = QueryVector & {
  filters: SearchFilters;
  exclude?: number | undefined;
  newestId?: number | undefined;
  limit: number;
  exactMatches?: number | undefined;
  mostForModel?: number | undefined;
};

/** Up to so many listings that pass the filters, all distances are computed in any case. */
export const EXACT_MATCHES = 2000;

/**
 * How many neighbours the index keeps in view: more find more of the true nearest, and take longer. Where filters let
 * few of them pass it looks on from there, which costs less than a wider view from the beginning.
 */
const INDEX_VIEW = { least: 200, most: 1000 };

/** How many times as many as are asked for are in view at least. */
const VIEW_RESERVE = 2;

/**
 * So many distances are computed at most only because listings have no embedding of the vector's model yet: a
 * search must not read a table of a million listings until its backfill has come to an end.
 */
const MOST_FOR_MODEL = 100_000;

/** How many distances can be computed in the time in which the index looks at one neighbour more. */
const INDEX_COST = 4;

/**
 * Finds the listings whose embeddings are nearest to a vector by cosine distance, ties by id.
 *
 * The index walks outwards from the vector and knows nothing of the filters: of a filter that one listing in
 * a hundred passes it has to look at a hundred neighbours for each that is found. So where few listings pass,
 * or where it would look at more of them than is worth it, all distances are computed instead; so they are
 * where the index came back with too few because of the filters.
 * Embeddings of another model than the vector's are left out: distances between models mean nothing. Where
 * many listings pass and the index came back with too few because most are still of another model, these few
 * are what there is.
 * @param vector As PostgreSQL writes it; not the zero vector.
 * @param exclude A listing that is left out.
 * @param newestId Listings that came after this one are left out.
 * @param exactMatches Up to how many candidates the index is not used; `EXACT_MATCHES` unless told.
 * @param mostForModel `MOST_FOR_MODEL` unless told.
 */
export async function findNearest(db: Kysely<Tables>, query: Query): Promise<Neighbour[]> {
  const { limit, filters, exactMatches = EXACT_MATCHES, mostForModel = MOST_FOR_MODEL } = query;
  const { all, passing } = await estimateListings(db, filters);
  const lookedAt = (limit * all) / Math.max(1, passing);
  const isExactCheaper = exactMatches > 0 && passing <= lookedAt * INDEX_COST;
  if (passing <= exactMatches || isExactCheaper) return searchExactly(db, query);
  const view = Math.min(Math.max(INDEX_VIEW.least, limit * VIEW_RESERVE), INDEX_VIEW.most);
  const found = await searchIndex(db, query, view);
  if (found.length >= limit) return found;
  const isForModel = passing > mostForModel && (await hasEnoughOfAny(db, query, view));
  return isForModel ? found : searchExactly(db, query);
}

/** Whether the index has enough where it does not matter which model made an embedding. */
async function hasEnoughOfAny(db: Kysely<Tables>, query: Query, view: number): Promise<boolean> {
  if (query.embeddingModel === null) return false;
  const found = await searchIndex(db, { ...query, embeddingModel: null }, view);
  return found.length >= query.limit;
}

/** What a neighbour must be beside passing the filters. */
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
  const parts = partsOf(filters).map(
    (part) => sql`
      select id, embedding <=> ${vector}::vector as distance, duplicate_group as "group"
      from property_listings
      where ${part} and ${hasFilterTerms(filters)} and ${isCandidate(query)}`,
  );
  const { rows } = await sql<Neighbour>`
    with candidates as materialized (${sql.join(parts, sql` union all `)})
    select id, distance, "group" from candidates
    where distance <> 'NaN' order by distance, id limit ${limit}
  `.execute(db);
  return rows;
}

/**
 * Asks the index. Looking on, it comes upon neighbours that are nearer than what it gave before, and gives them out of
 * order; in strict order it would leave them out, which are one in twenty where few listings pass the filters.
 * Its settings are the statement's alone, so that the connection goes back to the pool without them; that the search
 * needs what they give keeps it from beginning before they are made.
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
        and ${matchesFilters(filters)} and ${isCandidate(query)}
      order by distance, id limit ${limit}) as near
    order by distance, id`.execute(db);
  return rows;
}
