import { type Kysely, sql } from 'kysely';
import type { Tables } from '../tables.ts';
import type { Comparison } from './compare.ts';

/** Which listings one is paired with, at most so many. */
export async function listPartners(
  db: Kysely<Tables>,
  listingId: number,
  limit: number,
): Promise<number[]> {
  const { rows } = await sql<{ id: number }>`
    select high_id as id from duplicate_pairs where low_id = ${listingId}
    union all
    select low_id from duplicate_pairs where high_id = ${listingId}
    limit ${limit}`.execute(db);
  return rows.map(({ id }) => id);
}

/** The group that a listing is in; null where it is in none, or does not exist. */
export async function findGroup(db: Kysely<Tables>, listingId: number): Promise<number | null> {
  const row = await db
    .selectFrom('property_listings')
    .select('duplicate_group')
    .where('id', '=', listingId)
    .executeTakeFirst();
  return row?.duplicate_group ?? null;
}

/** Stores the pairs of a listing, by the other's id, and removes those with others that it lists. */
export async function storePairs(
  trx: Kysely<Tables>,
  listingId: number,
  { pairs, removed }: { pairs: ReadonlyMap<number, Comparison>; removed: readonly number[] },
): Promise<void> {
  await sql`delete from duplicate_pairs
    where low_id = ${listingId} and high_id = any(${[...removed]}::bigint[])
      or high_id = ${listingId} and low_id = any(${[...removed]}::bigint[])`.execute(trx);
  const rows = [...pairs].map(([id, { score, reasons }]) => ({
    low_id: Math.min(id, listingId),
    high_id: Math.max(id, listingId),
    score,
    reasons,
  }));
  await sql`
    insert into duplicate_pairs as pair (low_id, high_id, score, reasons)
    select * from jsonb_to_recordset(${JSON.stringify(rows)}::jsonb)
      as found (low_id bigint, high_id bigint, score real, reasons jsonb)
    on conflict (low_id, high_id) do update
      set score = excluded.score, reasons = excluded.reasons, updated_at = now()
      where pair.reasons is distinct from excluded.reasons`.execute(trx);
}

/** The likely duplicates of a listing, the likeliest first. */
export function listDuplicates(db: Kysely<Tables>, listingId: number, limit: number) {
  return db
    .selectFrom('duplicate_pairs as pair')
    .innerJoin('property_listings as other', (join) =>
      join.on(
        'other.id',
        '=',
        sql<number>`case pair.low_id when ${listingId} then pair.high_id else pair.low_id end`,
      ),
    )
    .select([
      'other.id as listing_id',
      'other.source_slug',
      'other.external_id',
      'other.url',
      'other.price',
      'other.currency',
      'pair.score',
      'pair.reasons',
    ])
    .where((eb) => eb.or([eb('pair.low_id', '=', listingId), eb('pair.high_id', '=', listingId)]))
    .where('other.archived_at', 'is', null)
    .orderBy('pair.score', 'desc')
    .orderBy('other.id')
    .limit(limit)
    .execute();
}
