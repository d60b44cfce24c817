import { type Kysely, sql, type Transaction } from 'kysely';
import { alive, type Lifetime } from '../identity/index.ts';
import type { Tables } from '../tables.ts';
import type { Hit, ListingFacts } from './changes.ts';

/** What is cached of a user. */
export type CachedRights = { role: string; permissions: string };

/** A search that has something to tell, with the rights of its user. */
export type DueSearch = CachedRights & {
  id: string;
  user_id: string;
  session_id: string;
  /** Whether an answer is being written in its session, for whose end its digest waits. */
  is_answering: boolean;
};

/** Whether enough time has passed since the last digest of a search. */
const isDue = sql<boolean>`(saved_searches.told_at is null
  or saved_searches.told_at + make_interval(mins => saved_searches.every_minutes) <= now())`;

/**
 * Whether the user of a search is signed in somewhere.
 * @param lifetime Of sign-ins.
 */
const isSignedIn = (lifetime: Lifetime) => sql<boolean>`exists (select from user_auth_sessions s
  where s.user_id = saved_searches.user_id and ${alive(lifetime)})`;

/**
 * Searches that have something to tell, and may by the time of their last digest, of users who are signed in
 * somewhere.
 * @param lifetime Of sign-ins.
 * @param after The id of the last search of the page before.
 */
export async function dueSearches(
  db: Kysely<Tables>,
  { lifetime, after, limit }: { lifetime: Lifetime; after: string; limit: number },
): Promise<DueSearch[]> {
  const { rows } = await sql<DueSearch>`
    select saved_searches.id, saved_searches.user_id, saved_searches.session_id,
      svc_users.role, svc_users.permissions,
      exists (select from chat_turns
        where session_id = saved_searches.session_id and status = 'running') as is_answering
    from saved_searches join svc_users on svc_users.id = saved_searches.user_id
    where saved_searches.id > ${after} and not saved_searches.paused
      and saved_searches.session_id is not null and ${isDue}
      and exists (select from saved_search_hits
        where search_id = saved_searches.id and told_at is null)
      and ${isSignedIn(lifetime)}
    order by saved_searches.id limit ${limit}`.execute(db);
  return rows;
}

/** What a digest says of its search. */
export type Heading = { name: string; query: string };

/**
 * Locks a search that may tell what it has to, in the transaction of the digest: nothing that it finds meanwhile is
 * taken for told.
 * @param search.sessionId Where it is going to be told.
 * @param search.lifetime Of sign-ins.
 * @returns With the rights of its user, to whom it may not be told without them. Nothing where the search was deleted,
 *   paused, moved or told meanwhile, or its user signed out.
 */
export function lockDue(
  trx: Transaction<Tables>,
  { id, sessionId, lifetime }: { id: string; sessionId: string; lifetime: Lifetime },
): Promise<(Heading & CachedRights) | undefined> {
  return trx
    .selectFrom('saved_searches')
    .innerJoin('svc_users', 'svc_users.id', 'saved_searches.user_id')
    .select(['saved_searches.name', 'svc_users.role', 'svc_users.permissions'])
    .select(sql<string>`coalesce(saved_searches.search ->> 'query', '')`.as('query'))
    .where('saved_searches.id', '=', id)
    .where('saved_searches.session_id', '=', sessionId)
    .where('saved_searches.paused', '=', false)
    .where(isDue)
    .where(isSignedIn(lifetime))
    .forUpdate('saved_searches')
    .executeTakeFirst();
}

/** What a search has to tell. */
export type Waiting = {
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
 * Takes what a search that is locked has to tell, which from then on has been told. What it found before it was
 * changed, and was not found by it since, waits on.
 * @returns Nothing where there is nothing of it to tell.
 */
export async function takeWaiting(
  trx: Transaction<Tables>,
  { id, limit }: { id: string; limit: number },
): Promise<Waiting | undefined> {
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
  return { hits, counts: { new: 0, cheaper: 0, ...counted } };
}
