import { type Kysely, sql } from 'kysely';
import type { Tables } from '../database.ts';
import { matchesFilters } from './filters.ts';
import type { Position } from './cursor.ts';
import type { SearchFilters } from './schemas.ts';

export type RankedIds = {
  /** Best first, newest first where ranks are equal. */
  hits: { id: number; rank: number }[];
  /** How many matches were ranked. */
  ranked: number;
  /** The newest of them; undefined where nothing matches. */
  newestId: number | undefined;
};

/**
 * Finds the listings that have all words, and ranks them by cover density. Ranking reads the whole
 * search vector of every match, so only the `bound` newest matches are ranked.
 * @param text A normalised query.
 * @param after Where the page before ended.
 * @param newestId Listings that came after this one are left out.
 */
export async function rankMatches(
  db: Kysely<Tables>,
  options: {
    text: string;
    filters: SearchFilters;
    limit: number;
    bound: number;
    after?: Omit<Position, 'newestId'> | undefined;
    newestId?: number | undefined;
  },
): Promise<RankedIds> {
  const { text, filters, limit, bound, after, newestId } = options;
  const query = sql`plainto_tsquery('simple', ${text})`;
  const newest = db
    .selectFrom('property_listings')
    .select(['id', 'search_vector'])
    .where(sql<boolean>`search_vector @@ ${query}`)
    .where(matchesFilters(filters))
    .where('id', '<=', newestId ?? Number.MAX_SAFE_INTEGER)
    .orderBy('id', 'desc')
    .limit(bound);
  const place =
    after === undefined ? sql`true` : sql`(rank, id) < (${after.rank}::real, ${after.id})`;
  const { rows } = await sql<Omit<RankedIds, 'newestId'> & { newest_id: number | null }>`
    with ranked as materialized (
      select id, ts_rank_cd(search_vector, ${query}) as rank from (${newest}) as newest
    ),
    page as (select id, rank from ranked where ${place} order by rank desc, id desc limit ${limit})
    select (select count(*) from ranked) as ranked,
           (select max(id) from ranked) as newest_id,
           coalesce((select json_agg(page order by rank desc, id desc) from page), '[]') as hits
  `.execute(db);
  const { hits = [], ranked = 0, newest_id = null } = rows[0] ?? {};
  return { hits, ranked, newestId: newest_id ?? undefined };
}
