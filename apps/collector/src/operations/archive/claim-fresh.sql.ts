import { type Kysely, sql } from 'kysely';
import type { Tables } from '../../tables.ts';
import { checkable, type CheckChoice, CLAIM, type Claim, ofSource } from './claims.sql.ts';

/**
 * Ids of listings with an address that one statement looks through: as many as a run of the upkeep checks, so that
 * with as many listings as there may be it costs some 2 ms, and all are looked through while all are checked once.
 */
export const LOOKED_THROUGH = 1000;

/** Ids above the first, up to the second. */
type Range = { after: number; upTo: number };

const ALL: Range = { after: 0, upTo: Number.MAX_SAFE_INTEGER };

/**
 * Claims listings that were never asked. Those that came after all that were are found at the end. What was passed by,
 * such as a listing that was archived and came back, or got its address later, is found by going round through the
 * others, `LOOKED_THROUGH` at a time. Of one source all are looked through: only an admin asks for that.
 * @param from Where the last round has come to: the `next` of the call before, 0 for the first.
 */
export async function claimFresh(
  db: Kysely<Tables>,
  choice: CheckChoice,
  from: number,
): Promise<{ claims: Claim[]; next: number }> {
  if (choice.source !== undefined) {
    return { claims: await claimWithin(db, choice, ALL), next: from };
  }
  const newest = await claimWithin(db, choice, await rangeAfter(db, await lastChecked(db)));
  const limit = choice.limit - newest.length;
  if (limit === 0) return { claims: newest, next: from };
  const range = await rangeAfter(db, from);
  const passedBy = await claimWithin(db, { ...choice, limit }, range);
  const reached = passedBy.length === limit ? passedBy.at(-1)?.listingId : range.upTo;
  const isRound = reached === undefined || reached === ALL.upTo;
  return { claims: [...newest, ...passedBy], next: isRound ? 0 : reached };
}

async function lastChecked(db: Kysely<Tables>): Promise<number> {
  const { rows } = await sql<{ id: number | null }>`
    select max(listing_id) as id from listing_checks`.execute(db);
  return rows[0]?.id ?? 0;
}

async function rangeAfter(db: Kysely<Tables>, after: number): Promise<Range> {
  const { rows } = await sql<{ id: number }>`
    select id from property_listings as listing
    where ${checkable} and id > ${after}
    order by id offset ${LOOKED_THROUGH - 1} limit 1`.execute(db);
  return { after, upTo: rows[0]?.id ?? ALL.upTo };
}

async function claimWithin(
  db: Kysely<Tables>,
  { limit, source, notWithinHours }: CheckChoice,
  { after, upTo }: Range,
): Promise<Claim[]> {
  const isDue =
    notWithinHours === undefined
      ? sql`true`
      : sql`listing.created_at < now() - ${notWithinHours} * interval '1 hour'`;
  // The ids alone are read off an index; the listings themselves are too wide to look through them all.
  const { rows } = await sql<Claim>`
    with chosen as materialized (
      select id from property_listings as listing
      where ${checkable} and id > ${after} and id <= ${upTo} and ${ofSource(source)} and ${isDue}
        and not exists (
          select from listing_checks
          where listing_id = listing.id and listing_id > ${after} and listing_id <= ${upTo})
      order by id
      limit ${limit}),
    claimed as (
      insert into listing_checks (listing_id, claimed_until)
      select id, now() + ${CLAIM} from chosen order by id
      on conflict (listing_id) do nothing
      returning listing_id)
    select id as "listingId", raw_id as "rawId", url
    from property_listings join claimed on listing_id = id
    join listing_payloads using (source_slug, external_id)
    order by id`.execute(db);
  return rows;
}
