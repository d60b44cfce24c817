import { type Expression, expressionBuilder, type Kysely, sql, type SqlBool } from 'kysely';
import type { Tables } from '../database.ts';
import { matchesFilters } from './filters.ts';
import type { QueryVector } from './query-vector.ts';
import type { SearchFilters } from './schemas.ts';

export type Neighbour = { id: number; distance: number };

/**
 * Finds the listings whose embeddings are nearest to a vector by cosine distance, ties by id.
 *
 * The index walks outwards from the vector and knows nothing of the filters: with a filter that few
 * listings pass it would give up (after `hnsw.max_scan_tuples`) before it has met enough of them. So
 * where at most `exactMatches` listings pass, their distances are simply all computed; so they are
 * where the index came back with too few.
 * Embeddings of another model than the vector's are left out: distances between models mean nothing.
 * @param vector As PostgreSQL writes it; not the zero vector.
 * @param exclude A listing that is left out.
 * @param newestId Listings that came after this one are left out.
 */
export async function findNearest(
  db: Kysely<Tables>,
  options: QueryVector & {
    filters: SearchFilters;
    exclude?: number | undefined;
    newestId?: number | undefined;
    limit: number;
    exactMatches: number;
  },
): Promise<Neighbour[]> {
  const { vector, limit, exactMatches } = options;
  const candidates = isCandidate(options);
  const few = await listFew(db, candidates, exactMatches);
  if (few !== undefined)
    return few.length === 0 ? [] : searchExactly(db, vector, isOneOf(few), limit);
  const found = await searchIndex(db, vector, candidates, limit);
  return found.length < limit ? searchExactly(db, vector, candidates, limit) : found;
}

function isCandidate(options: {
  filters: SearchFilters;
  embeddingModel: string | null;
  exclude?: number | undefined;
  newestId?: number | undefined;
}): Expression<SqlBool> {
  const { filters, embeddingModel, exclude, newestId } = options;
  const eb = expressionBuilder<Tables, 'property_listings'>();
  const conditions = [matchesFilters(filters), eb('embedding', 'is not', null)];
  if (exclude !== undefined) conditions.push(eb('id', '<>', exclude));
  if (newestId !== undefined) conditions.push(eb('id', '<=', newestId));
  if (embeddingModel !== null) {
    conditions.push(
      eb.or([eb('embedding_model', '=', embeddingModel), eb('embedding_model', 'is', null)]),
    );
  }
  return eb.and(conditions);
}

function isOneOf(ids: number[]): Expression<SqlBool> {
  return sql<SqlBool>`id = any(${ids}::bigint[])`;
}

/** The candidates' ids; undefined where there are more than `most`. */
async function listFew(
  db: Kysely<Tables>,
  candidates: Expression<SqlBool>,
  most: number,
): Promise<number[] | undefined> {
  const rows = await db
    .selectFrom('property_listings')
    .select('id')
    .where(candidates)
    .limit(most + 1)
    .execute();
  return rows.length > most ? undefined : rows.map(({ id }) => id);
}

/** Computes all distances: "materialized" keeps the planner from using the index after all. */
async function searchExactly(
  db: Kysely<Tables>,
  vector: string,
  candidates: Expression<SqlBool>,
  limit: number,
): Promise<Neighbour[]> {
  const { rows } = await sql<Neighbour>`
    with candidates as materialized (
      select id, embedding <=> ${vector}::vector as distance
      from property_listings where ${candidates}
    )
    select id, distance from candidates
    where distance <> 'NaN' order by distance, id limit ${limit}
  `.execute(db);
  return rows;
}

/** How many neighbours the index keeps in view; more find more of the true nearest. */
const INDEX_VIEW = 100;

/** The settings are the transaction's alone: the connection goes back to the pool without them. */
function searchIndex(
  db: Kysely<Tables>,
  vector: string,
  candidates: Expression<SqlBool>,
  limit: number,
): Promise<Neighbour[]> {
  return db.transaction().execute(async (trx) => {
    await sql`select set_config('hnsw.iterative_scan', 'strict_order', true),
                     set_config('hnsw.ef_search', ${String(Math.max(INDEX_VIEW, limit))}, true)`.execute(
      trx,
    );
    const { rows } = await sql<Neighbour>`
      select id, embedding <=> ${vector}::vector as distance
      from property_listings where ${candidates}
      order by distance, id limit ${limit}
    `.execute(trx);
    return rows;
  });
}
