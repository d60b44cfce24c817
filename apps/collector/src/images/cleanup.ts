import { type Kysely, sql } from 'kysely';
import type { Tables } from '../tables.ts';
import type { ImageStore } from './store.ts';

/** Images that one statement looks at. */
const BATCH = 500;

/** The least age of a removed image, and the signal that ends the cleanup after the image in progress. */
export type CleanupOptions = { olderThanDays: number; signal?: AbortSignal | undefined };

/**
 * Removes images that no listing shows, with their thumbnails. Each is removed with its row locked, so that a job that
 * records it meanwhile waits, finds that its bytes are missing, and fails its stage, which is repeated.
 * @returns How many.
 * @throws What the store or the database throws; images removed until then stay removed.
 */
export async function cleanUpImages(
  { db, store }: { db: Kysely<Tables>; store: Pick<ImageStore, 'remove'> },
  { olderThanDays, signal }: CleanupOptions,
): Promise<number> {
  let removed = 0;
  for (let after: string | undefined = ''; after !== undefined;) {
    const rows: { sha256: string; isUnshown: boolean }[] = await findBatch(
      db,
      after,
      olderThanDays,
    );
    for (const { sha256, isUnshown } of rows) {
      if (signal?.aborted === true) return removed;
      if (isUnshown && (await removeUnshown(db, sha256, store))) removed += 1;
    }
    after = rows.at(-1)?.sha256;
  }
  return removed;
}

async function findBatch(db: Kysely<Tables>, after: string, olderThanDays: number) {
  const { rows } = await sql<{ sha256: string; isUnshown: boolean }>`
    with examined as materialized (
      select sha256, created_at from images where sha256 > ${after} order by sha256 limit ${BATCH})
    select sha256,
      created_at < now() - ${olderThanDays} * interval '1 day'
        and not exists (select from listing_images where listing_images.sha256 = examined.sha256)
        as "isUnshown"
    from examined order by sha256`.execute(db);
  return rows;
}

/** @returns False where a listing shows the image by now, or is about to. */
function removeUnshown(
  db: Kysely<Tables>,
  sha256: string,
  store: Pick<ImageStore, 'remove'>,
): Promise<boolean> {
  return db.transaction().execute(async (trx) => {
    // A reference that is not committed yet holds a lock on the row; a committed one is seen by the next statement.
    const locked = await trx
      .selectFrom('images')
      .select('sha256')
      .where('sha256', '=', sha256)
      .forUpdate()
      .skipLocked()
      .executeTakeFirst();
    if (locked === undefined) return false;
    const deleted = await sql`delete from images where sha256 = ${sha256}
      and not exists (select from listing_images where sha256 = ${sha256})`.execute(trx);
    if (deleted.numAffectedRows === 0n) return false;
    await store.remove(sha256);
    return true;
  });
}
