import { type Kysely, sql } from 'kysely';
import type { Tables } from '../tables.ts';
import { type Listing, listingColumns, presentListing } from '../listing/listing.ts';
import { matchesFilters } from './filters.sql.ts';
import type { SearchFilters } from './schemas.ts';

/** The listings with these ids, each under its id; one deleted meanwhile is missing. */
export async function loadListings(
  db: Kysely<Tables>,
  ids: readonly number[],
): Promise<Map<number, Listing>> {
  if (ids.length === 0) return new Map();
  const rows = await db
    .selectFrom('property_listings')
    .select(listingColumns)
    .where('id', 'in', ids)
    .execute();
  return new Map(rows.map((row) => [row.id, presentListing(row)]));
}

/**
 * Which of some listings pass filters and have all words.
 * @param text A normalised query that has a word; undefined where the filters alone decide.
 */
export async function listMatching(
  db: Kysely<Tables>,
  {
    ids,
    text,
    filters,
  }: { ids: readonly number[]; text: string | undefined; filters: SearchFilters },
): Promise<Listing[]> {
  const rows = await db
    .selectFrom('property_listings')
    .select(listingColumns)
    .where('id', 'in', ids)
    .where(matchesFilters(filters))
    .$if(text !== undefined, (query) =>
      query.where(sql<boolean>`search_vector @@ plainto_tsquery('simple', ${text})`),
    )
    .execute();
  return rows.map(presentListing);
}

/** A listing's embedding and the model that made it; undefined where there is no such listing. */
export function readEmbedding(
  db: Kysely<Tables>,
  id: number,
): Promise<{ embedding: string | null; embedding_model: string | null } | undefined> {
  return db
    .selectFrom('property_listings')
    .select(['embedding', 'embedding_model'])
    .where('id', '=', id)
    .executeTakeFirst();
}

/** The first listings of groups of likely duplicates, by their ids, each group under its own. */
export async function listGroupMembers(
  db: Kysely<Tables>,
  groups: readonly number[],
  { include_archived, limit }: { include_archived: boolean; limit: number },
): Promise<Map<number, number[]>> {
  const { rows } = await sql<{ group: number; ids: number[] }>`
    select wanted.id as "group", (
      select coalesce(jsonb_agg(id order by id), '[]') from (
        select id from property_listings
        where duplicate_group = wanted.id and (${include_archived} or archived_at is null)
        order by id limit ${limit}) as member) as ids
    from unnest(${[...new Set(groups)]}::bigint[]) as wanted (id)`.execute(db);
  return new Map(rows.map(({ group, ids }) => [group, ids]));
}
