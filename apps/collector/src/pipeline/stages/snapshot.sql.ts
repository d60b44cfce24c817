import { type Kysely, sql } from 'kysely';
import type { Tables } from '../../database/tables.ts';

type State = Readonly<Record<string, unknown>>;

/** What is recorded of a listing already. */
export type Earlier = {
  /** By an earlier attempt of the same payload. */
  own: State | undefined;
  /** By the payload before. */
  before: State | undefined;
  /** Whether pictures came along with the payload. */
  hasUploads: boolean;
};

/** The states that a listing's snapshots have of a payload and of the one before it. */
export async function findEarlier(
  db: Kysely<Tables>,
  listingId: number,
  rawId: number,
): Promise<Earlier> {
  const { rows } = await sql<{ own: State | null; before: State | null; hasUploads: boolean }>`
    select
      (select listing from listing_snapshots
        where listing_id = ${listingId} and raw_id = ${rawId}) as own,
      (select listing from listing_snapshots
        where listing_id = ${listingId} and raw_id < ${rawId}
        order by raw_id desc limit 1) as before,
      exists (select from raw_data where id = ${rawId} and uploads is not null) as "hasUploads"`.execute(
    db,
  );
  const { own, before, hasUploads = false } = rows[0] ?? {};
  return { own: own ?? undefined, before: before ?? undefined, hasUploads };
}
