import { type Kysely, type RawBuilder, sql } from 'kysely';
import type { Tables } from '../../tables.ts';

/** How long a run may take for what it has claimed. Whoever is slower is taken for gone. */
export const CLAIM = sql`interval '5 minutes'`;

/** A listing whose address is to be asked, and the payload that it was made from by then. */
export type Claim = { listingId: number; rawId: number; url: string };

/** Which listings are to be asked after. */
export type CheckChoice = {
  limit: number;
  source?: string | undefined;
  /** Leave out what was asked, or came into being, within so many hours. */
  notWithinHours?: number | undefined;
};

/** A listing that can be asked after, as a row `listing`. */
export const checkable = sql`listing.url is not null and listing.archived_at is null`;

/** A listing of this source, or of any. */
export function ofSource(source: string | undefined): RawBuilder<unknown> {
  return source === undefined ? sql`true` : sql`listing.source_slug = ${source}`;
}

/** Claims listings for a check: those that were asked longest ago, and before them such whose check never ended. */
export async function claimOldest(
  db: Kysely<Tables>,
  { limit, source, notWithinHours }: CheckChoice,
): Promise<Claim[]> {
  const isDue =
    notWithinHours === undefined
      ? sql`true`
      : sql`(checked_at is null or checked_at < now() - ${notWithinHours} * interval '1 hour')`;
  const { rows } = await sql<Claim>`
    with chosen as materialized (
      select listing_id, listing_payloads.raw_id, listing.url
      from listing_checks join property_listings as listing on listing.id = listing_id
      join listing_payloads using (source_slug, external_id)
      where ${checkable} and ${ofSource(source)} and ${isDue}
        and (claimed_until is null or claimed_until < now())
      order by checked_at nulls first, listing_id
      limit ${limit}
      for update of listing_checks skip locked),
    claimed as (
      update listing_checks set claimed_until = now() + ${CLAIM}
      from chosen where listing_checks.listing_id = chosen.listing_id)
    select listing_id as "listingId", raw_id as "rawId", url from chosen`.execute(db);
  return rows;
}

/** Gives up claims of listings that were not asked. */
export async function releaseListings(
  db: Kysely<Tables>,
  listingIds: readonly number[],
): Promise<void> {
  if (listingIds.length === 0) return;
  await db
    .updateTable('listing_checks')
    .set({ claimed_until: null })
    .where('listing_id', 'in', listingIds)
    .execute();
}
