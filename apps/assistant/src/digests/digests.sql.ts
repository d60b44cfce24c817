import { type Kysely, sql, type Transaction } from 'kysely';
import type { Tables } from '../tables.ts';
import type { Search } from '../saved-searches/index.ts';
import type { Hit, ListingFacts } from './changes.ts';

/** A search that has something to tell. */
export type DueSearch = {
  id: string;
  user_id: string;
  session_id: string;
  search: Search;
  /** Of its user, as they were cached last. */
  role: string;
  permissions: string;
  /** Whether an answer is being written in its session, for whose end its digest waits. */
  is_answering: boolean;
};

/** Whether enough time has passed since the last digest of a search. */
const isDue = sql<boolean>`(saved_searches.told_at is null
  or saved_searches.told_at + make_interval(mins => saved_searches.every_minutes) <= now())`;

/**
 * Searches that have something to tell, and may by the time of their last digest, of users who are signed in
 * somewhere.
 * @param lifetimeDays Of sign-ins.
 * @param after The id of the last search of the page before.
 */
export async function dueSearches(
  db: Kysely<Tables>,
  { lifetimeDays, after, limit }: { lifetimeDays: number; after: string; limit: number },
): Promise<DueSearch[]> {
  const { rows } = await sql<DueSearch>`
    select saved_searches.id, saved_searches.user_id, saved_searches.session_id,
      saved_searches.search, svc_users.role, svc_users.permissions,
      exists (select from chat_turns
        where session_id = saved_searches.session_id and status = 'running') as is_answering
    from saved_searches join svc_users on svc_users.id = saved_searches.user_id
    where saved_searches.id > ${after} and not saved_searches.paused
      and saved_searches.session_id is not null and ${isDue}
      and exists (select from saved_search_hits
        where search_id = saved_searches.id and told_at is null)
      and exists (select from user_auth_sessions
        where user_id = saved_searches.user_id
          and created_at > now() - make_interval(days => ${lifetimeDays}))
    order by saved_searches.id limit ${limit}`.execute(db);
  return rows;
}

/** What a search has to tell. */
export type Waiting = {
  name: string;
  query: string;
  /** The newest found first, at most as many as were asked for. */
  hits: {
    listing_id: number;
    kind: Hit['kind'];
    old_price: number | null;
    listing: ListingFacts;
  }[];
  /** How many there are in all, by kind. */
  counts: Record<Hit['kind'], number>;
};

/**
 * Takes what a search has to tell, which from then on has been told: in the transaction of the digest. The search is
 * locked, so that nothing it finds meanwhile is taken for told. What it found before it was changed, and was not found
 * by it since, waits on.
 * @param search.sessionId Where it is going to be told.
 * @returns Nothing where the search was deleted, paused, moved or told meanwhile, or where nothing of it is to be told.
 */
export async function takeWaiting(
  trx: Transaction<Tables>,
  { id, sessionId, limit }: { id: string; sessionId: string; limit: number },
): Promise<Waiting | undefined> {
  const search = await trx
    .selectFrom('saved_searches')
    .select(['name', sql<string>`coalesce(search ->> 'query', '')`.as('query')])
    .where('id', '=', id)
    .where('session_id', '=', sessionId)
    .where('paused', '=', false)
    .where(isDue)
    .forUpdate()
    .executeTakeFirst();
  if (search === undefined) return undefined;
  const hits = await trx
    .selectFrom('saved_search_hits')
    .select(['listing_id', 'kind', 'old_price', sql<ListingFacts>`listing`.as('listing')])
    .where('search_id', '=', id)
    .where('told_at', 'is', null)
    .where('search_changed', '=', false)
    .orderBy('found_at', 'desc')
    .orderBy('listing_id', 'desc')
    .limit(limit)
    .execute();
  const { rows } = await sql<{ kind: Hit['kind']; count: number }>`
    with told as (
      update saved_search_hits set told_at = now(), listing = null
      where search_id = ${id} and told_at is null and not search_changed returning kind
    )
    select kind, count(*) as count from told group by kind`.execute(trx);
  if (rows.length === 0) return undefined;
  await trx
    .updateTable('saved_searches')
    .set({ told_at: sql<Date>`now()` })
    .where('id', '=', id)
    .execute();
  const counted = Object.fromEntries(rows.map(({ kind, count }) => [kind, count]));
  return { ...search, hits, counts: { new: 0, cheaper: 0, ...counted } };
}
