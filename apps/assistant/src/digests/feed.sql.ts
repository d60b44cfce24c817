import { type Kysely, sql } from 'kysely';
import { storableJson } from '../text.ts';
import type { Tables } from '../tables.ts';
import type { Search } from '../saved-searches/index.ts';
import type { Hit } from './changes.ts';

/**
 * How long a process that does not say that it reads the feed is believed to: longer than one request to the
 * collector takes, with a wait that the collector asks for before it.
 */
const LEASE_SECONDS = 120;

const lease = sql<Date>`now() + ${LEASE_SECONDS}::integer * interval '1 second'`;

/** How far the feed has been read. */
export type Place = {
  /** Null before the collector has answered for the first time. */
  cursor: string | null;
  caughtUpAt: Date;
};

/**
 * Lets this process read the feed, if no other one does.
 * @param holder Of this process.
 * @returns Nothing while another one does.
 */
export async function claimFeed(db: Kysely<Tables>, holder: string): Promise<Place | undefined> {
  const row = await db
    .updateTable('collector_feed')
    .set({ holder, lease_until: lease })
    .where((eb) =>
      eb.or([
        eb('holder', '=', holder),
        eb('lease_until', 'is', null),
        eb('lease_until', '<', sql<Date>`now()`),
      ]),
    )
    .returning(['cursor', 'caught_up_at'])
    .executeTakeFirst();
  return row && { cursor: row.cursor, caughtUpAt: row.caught_up_at };
}

/**
 * Lets another process read the feed at once.
 * @param holder Which one did; whichever it was without it.
 */
export async function releaseFeed(db: Kysely<Tables>, holder?: string): Promise<void> {
  let query = db.updateTable('collector_feed').set({ holder: null, lease_until: null });
  if (holder !== undefined) query = query.where('holder', '=', holder);
  await query.execute();
}

/** A saved search that is not paused, and what it looks for. */
export type ActiveSearch = { id: string; search: Search };

/**
 * Saved searches that are not paused, by their ids: what one looks for may change while others are asked about.
 * @param page.after The id of the last of the page before.
 */
export function activeSearches(
  db: Kysely<Tables>,
  { after, limit }: { after: string; limit: number },
): Promise<ActiveSearch[]> {
  return (
    db
      .selectFrom('saved_searches')
      // They were checked before they were written.
      .select(['id', sql<Search>`search`.as('search')])
      .where('id', '>', after)
      .where('paused', '=', false)
      .where('session_id', 'is not', null)
      .orderBy('id')
      .limit(limit)
      .execute()
  );
}

/** How many searches are kept, those that are paused left out. */
export async function countActive(db: Kysely<Tables>): Promise<number> {
  const { count } = await db
    .selectFrom('saved_searches')
    .select(({ fn }) => fn.countAll<number>().as('count'))
    .where('paused', '=', false)
    .where('session_id', 'is not', null)
    .executeTakeFirstOrThrow();
  return count;
}

/** What was found by all searches that looked for the same. */
export type Found = {
  search: Search;
  /** Of those that did when the collector was asked. */
  ids: readonly string[];
  hits: readonly Hit[];
  /** When the collector answered, in milliseconds of `performance.now()`. */
  answeredAt: number;
};

/** A page of the feed that was read: where it began and ended, and what searches found in it. Where some are still to be asked, it ends where it began. */
export type ReadPage = {
  from: string | null;
  to: string | null;
  /** Whether there was nothing after it. */
  isLast: boolean;
  found: readonly Found[];
};

/**
 * Stores what was found in a page of the feed, and that it was read, together: whichever process reads it again,
 * after a kill or since it was slow, changes nothing. A find is as old as the answer that it is from. What a search
 * found that was changed since is what it found before that; one that was paused has found nothing.
 * @returns How many listings were found that a search had not found before, by kind; nothing where another process
 *   has read the page.
 */
export function storePage(
  db: Kysely<Tables>,
  holder: string,
  { from, to, isLast, found }: ReadPage,
): Promise<Record<Hit['kind'], number> | undefined> {
  return db.transaction().execute(async (trx) => {
    const { numUpdatedRows } = await trx
      .updateTable('collector_feed')
      .set({
        cursor: to,
        lease_until: lease,
        ...(isLast && { caught_up_at: sql<Date>`now()` }),
      })
      .where('holder', '=', holder)
      .where(sql<boolean>`cursor is not distinct from ${from}`)
      .executeTakeFirstOrThrow();
    if (numUpdatedRows === 0n) return undefined;
    const now = performance.now();
    const rows = found.flatMap(({ search, hits, answeredAt }) =>
      hits.map(({ listingId, kind, oldPrice, listing }) => ({
        search,
        listing_id: listingId,
        kind,
        old_price: oldPrice,
        listing,
        age_seconds: (now - answeredAt) / 1000,
      })),
    );
    const asked = found.flatMap(({ search, ids }) => ids.map((id) => ({ id, search })));
    const counts = { new: 0, cheaper: 0 };
    if (rows.length === 0) return counts;
    const stored = await sql<{ kind: Hit['kind']; is_first: boolean }>`
      with found as materialized (
        select * from jsonb_to_recordset(${storableJson(rows)}::jsonb) as found
          (search jsonb, listing_id bigint, kind text, old_price double precision, listing jsonb,
          age_seconds double precision)
      ), asked as materialized (
        select * from jsonb_to_recordset(${storableJson(asked)}::jsonb) as asked (id text, search jsonb)
      ), searched as materialized (
        -- Before what they have found, as whoever changes, tells or deletes one locks it: a change that is not
        -- committed yet is waited for, and then is what counts.
        select saved.id, asked.search, saved.search <> asked.search as is_changed
        from saved_searches as saved join asked on asked.id = saved.id
        where not saved.paused and saved.session_id is not null
        order by saved.id for no key update of saved
      )
      insert into saved_search_hits as stored
        (search_id, listing_id, kind, old_price, listing, found_at, search_changed)
      select searched.id, found.listing_id, found.kind, found.old_price, found.listing,
        now() - make_interval(secs => found.age_seconds), searched.is_changed
      from found join searched using (search)
      on conflict (search_id, listing_id) do update set
        listing = excluded.listing,
        found_at = least(stored.found_at, excluded.found_at),
        search_changed = excluded.search_changed,
        old_price = case
          when stored.listing ->> 'currency' is distinct from excluded.listing ->> 'currency'
            then excluded.old_price
          else coalesce(stored.old_price, excluded.old_price)
        end
      where stored.told_at is null
      returning kind, xmax = 0 as is_first`.execute(trx);
    for (const { kind, is_first: isFirst } of stored.rows) if (isFirst) counts[kind] += 1;
    return counts;
  });
}
