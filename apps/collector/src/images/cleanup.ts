import { type Kysely, sql } from 'kysely';
import type { Tables } from '../tables.ts';
import { decodeInTurn } from './decoding.ts';
import { fingerprint } from './fingerprint.ts';
import { findImages } from './repository.ts';
import type { ImageStore } from './store.ts';

/** Images that one statement looks at. */
const BATCH = 500;

const DAY_MS = 24 * 3_600_000;

/** The first two digits of hashes. */
const DIGITS = Array.from({ length: 256 }, (_, n) => n.toString(16).padStart(2, '0'));

type Deps = { db: Kysely<Tables>; store: Pick<ImageStore, 'remove' | 'list'> };

/** How long ago an image was stored to be removed, and the signal that ends the cleanup after the one in progress. */
export type CleanupOptions = { olderThanDays: number; signal?: AbortSignal | undefined };

/**
 * Removes images that no listing shows, with their thumbnails: those that listings showed once, and those of jobs that
 * ended before they recorded them. Each is removed with its row locked, so that a job that records it meanwhile waits,
 * finds that its bytes are missing, and stores it again.
 * @returns How many.
 * @throws What the store or the database throws; what was removed until then stays removed.
 */
export async function cleanUpImages(deps: Deps, options: CleanupOptions): Promise<number> {
  const { db, store } = deps;
  let removed = 0;
  for (const find of [findRecorded, findUnrecorded]) {
    for await (const sha256 of find(deps, options)) {
      if (options.signal?.aborted === true) return removed;
      if (await removeUnshown(db, sha256, () => store.remove(sha256))) removed += 1;
    }
  }
  return removed;
}

/** Yields the hashes of rows that no listing shows. */
async function* findRecorded({ db }: Deps, { olderThanDays, signal }: CleanupOptions) {
  let after: string | undefined = '';
  while (after !== undefined) {
    if (signal?.aborted === true) return;
    const { rows }: { rows: { sha256: string; is_unshown: boolean }[] } = await sql<{
      sha256: string;
      is_unshown: boolean;
    }>`
      with examined as materialized (
        select sha256, created_at from images where sha256 > ${after} order by sha256 limit ${BATCH})
      select sha256,
        created_at < now() - ${olderThanDays} * interval '1 day'
          and not exists (select from listing_images where listing_images.sha256 = examined.sha256)
          as is_unshown
      from examined order by sha256`.execute(db);
    for (const { sha256, is_unshown: isUnshown } of rows) if (isUnshown) yield sha256;
    after = rows.at(-1)?.sha256;
  }
}

/** Yields the hashes of stored bytes without a row. */
async function* findUnrecorded({ db, store }: Deps, { olderThanDays, signal }: CleanupOptions) {
  const latest = Date.now() - olderThanDays * DAY_MS;
  for (const digits of DIGITS) {
    if (signal?.aborted === true) return;
    for await (const files of store.list(digits)) {
      const known = await findImages(
        db,
        files.map(({ sha256 }) => sha256),
      );
      for (const { sha256, storedAt } of files) {
        if (!known.has(sha256) && (await storedAt()).getTime() < latest) yield sha256;
      }
    }
  }
}

/**
 * Removes the row of an image, and in the same transaction its bytes. One without a row gets one for that time. The
 * connection is held while the store removes the bytes.
 * @returns False where a listing shows the image by now, or is about to.
 */
function removeUnshown(
  db: Kysely<Tables>,
  sha256: string,
  removeBytes: () => Promise<void>,
): Promise<boolean> {
  return db.transaction().execute(async (trx) => {
    await trx
      .insertInto('images')
      .values({ sha256, media_type: '', width: 0, height: 0, bytes: 0 })
      .onConflict((conflict) => conflict.doNothing())
      .execute();
    // A reference that is not committed yet holds a lock on the row; a committed one is seen by the next statement.
    const locked = await trx
      .selectFrom('images')
      .select('sha256')
      .where('sha256', '=', sha256)
      .forUpdate()
      .skipLocked()
      .executeTakeFirst();
    if (locked === undefined) return false;
    const deleted = await trx
      .deleteFrom('images')
      .where('sha256', '=', sha256)
      .where((eb) =>
        eb.not(
          eb.exists(eb.selectFrom('listing_images').select('id').where('sha256', '=', sha256)),
        ),
      )
      .executeTakeFirst();
    if (deleted.numDeletedRows === 0n) return false;
    await removeBytes();
    return true;
  });
}

/**
 * Computes the fingerprints of images that were stored before there were any, in the order of their hashes. One that
 * cannot be read stays without.
 * @param options.after Where the last round ended; empty at first.
 * @param options.onError Called with each image that cannot be read.
 * @returns Where this round ended; undefined at the end.
 */
export async function fingerprintStored(
  { db, store }: { db: Kysely<Tables>; store: Pick<ImageStore, 'read'> },
  options: {
    after: string;
    limit: number;
    signal: AbortSignal;
    onError: (error: unknown, sha256: string) => void;
  },
): Promise<string | undefined> {
  const { after, limit, signal, onError } = options;
  const rows = await db
    .selectFrom('images')
    .select('sha256')
    .where('fingerprint', 'is', null)
    .where('sha256', '>', after)
    .orderBy('sha256')
    .limit(limit)
    .execute();
  for (const { sha256 } of rows) {
    if (signal.aborted) return after;
    const made = await decodeInTurn(async () => fingerprint(await store.read(sha256))).catch(
      (error: unknown) => {
        onError(error, sha256);
        return undefined;
      },
    );
    if (made === undefined) continue;
    await db
      .updateTable('images')
      .set({ fingerprint: made })
      .where('sha256', '=', sha256)
      .where('fingerprint', 'is', null)
      .execute();
  }
  return rows.at(-1)?.sha256;
}
