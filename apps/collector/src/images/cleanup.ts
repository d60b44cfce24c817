import { type Kysely, sql } from 'kysely';
import type { Tables } from '../tables.ts';
import type { ImageStore } from './store.ts';

/** Maximum number of images that one statement examines. */
const BATCH_SIZE = 500;

/** Minimum age of an image to remove, and a signal that stops the cleanup after the image in progress. */
export type CleanupOptions = { olderThanDays: number; signal?: AbortSignal | undefined };

/**
 * Removes images that are older than `olderThanDays` and that no listing shows, with their thumbnails. Each removal
 * locks the image's row. A job that records the image waits, finds that the file is missing, and retries its stage.
 * @returns The number of removed images.
 * @throws StoreOutageError, database errors. Images that were removed before the error stay removed.
 */
export async function cleanUpImages(
  { db, store }: { db: Kysely<Tables>; store: Pick<ImageStore, 'remove'> },
  { olderThanDays, signal }: CleanupOptions,
): Promise<number> {
  let removedCount = 0;
  for (let afterHash: string | undefined = ''; afterHash !== undefined;) {
    const images: ExaminedImage[] = await listImages(db, { afterHash, olderThanDays });
    for (const { sha256, isUnused } of images) {
      if (signal?.aborted === true) return removedCount;
      if (isUnused && (await removeIfUnused(db, sha256, store))) removedCount += 1;
    }
    afterHash = images.at(-1)?.sha256;
  }
  return removedCount;
}

type ExaminedImage = { sha256: string; isUnused: boolean };

async function listImages(
  db: Kysely<Tables>,
  { afterHash, olderThanDays }: { afterHash: string; olderThanDays: number },
): Promise<ExaminedImage[]> {
  const { rows } = await sql<ExaminedImage>`
    with examined as materialized (
      select sha256, created_at from images where sha256 > ${afterHash} order by sha256 limit ${BATCH_SIZE})
    select sha256,
      created_at < now() - ${olderThanDays} * interval '1 day'
        and not exists (select from listing_images where listing_images.sha256 = examined.sha256)
        as "isUnused"
    from examined order by sha256`.execute(db);
  return rows;
}

/** Removes an image that no listing shows, and returns whether it did. An image that a job is recording stays. */
function removeIfUnused(
  db: Kysely<Tables>,
  sha256: string,
  store: Pick<ImageStore, 'remove'>,
): Promise<boolean> {
  return db.transaction().execute(async (trx) => {
    // A transaction that adds a reference locks the row until it commits. The delete below sees committed references.
    const lockedImage = await trx
      .selectFrom('images')
      .select('sha256')
      .where('sha256', '=', sha256)
      .forUpdate()
      .skipLocked()
      .executeTakeFirst();
    if (lockedImage === undefined) return false;
    const deletion = await sql`delete from images where sha256 = ${sha256}
      and not exists (select from listing_images where sha256 = ${sha256})`.execute(trx);
    if (deletion.numAffectedRows === 0n) return false;
    await store.remove(sha256);
    return true;
  });
}
