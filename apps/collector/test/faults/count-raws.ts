import assert from 'node:assert/strict';
import { type Kysely, sql } from 'kysely';
import type { Tables } from '../../src/tables.ts';
import { until } from '@oselya/testing';

/** What is stored of one source, or of all. */
export type RawCounts = {
  stored: number;
  /** Of those that were asked for by id. */
  known: number;
  unfinished: number;
  /** Those of each right state, with what belongs to it. */
  completed: number;
  invalid: number;
  failed: number;
  /** Those that somebody claims still to work on. */
  held: number;
  /** Listings, and those of them that were made from the newest completed payload of theirs. */
  listings: number;
  current: number;
  /** Listings that there should be. */
  named: number;
};

/** Counts in one look how payloads ended, and whether the listings are what they make. */
export async function countRaws(
  db: Kysely<Tables>,
  { source, ids }: { source?: string; ids: Iterable<number> },
): Promise<RawCounts> {
  const own = source === undefined ? sql`true` : sql`source_slug = ${source}`;
  const { rows } = await sql<RawCounts>`
    with raw as materialized (select * from raw_data where ${own}),
    newest as (
      select source_slug, external_id, max(id) as raw_id from raw
      where status = 'completed' group by 1, 2)
    select count(*) as stored,
      count(*) filter (where id = any(${[...ids]}::bigint[])) as known,
      count(*) filter (where status in ('pending', 'processing')) as unfinished,
      count(*) filter (where status = 'completed' and error is null and listing_id is not null) as completed,
      count(*) filter (where status = 'invalid' and error ->> 'code' = 'not_a_listing') as invalid,
      count(*) filter (where status = 'failed' and error is not null) as failed,
      count(*) filter (where claimed_by is not null or lease_expires_at is not null) as held,
      (select count(*) from property_listings where ${own}) as listings,
      (select count(*) from listing_payloads join newest using (source_slug, external_id, raw_id))
        as current,
      (select count(*) from newest) as named
    from raw`.execute(db);
  const [counts] = rows;
  assert.ok(counts !== undefined);
  return counts;
}

/** Waits until every payload has ended, however. */
export async function untilEnded(db: Kysely<Tables>, patienceMs: number): Promise<void> {
  const left = db
    .selectFrom('raw_data')
    .select('id')
    .where('status', 'in', ['pending', 'processing'])
    .limit(1);
  await until(
    'all payloads to end',
    async () => (await left.executeTakeFirst()) === undefined,
    patienceMs,
  );
}
