import type { Kysely } from 'kysely';
import type { Tables } from '../tables.ts';
import { removeUnreferenced, type Scan, scanForUnreferenced } from './cleanup.sql.ts';
import { findImages } from './repository.ts';
import type { ImageStore, StoredFile } from './store/store.ts';

/** How many pictures one statement looks at. */
const BATCH = 500;

const DAY_MS = 24 * 3_600_000;

/** With what hashes begin. */
const DIGITS = Array.from({ length: 256 }, (_, n) => n.toString(16).padStart(2, '0'));

type Deps = { db: Kysely<Tables>; store: Pick<ImageStore, 'remove' | 'list'> };

/** Which pictures are old enough to be removed, by when they were stored, and what ends the removal. */
export type CleanupOptions = {
  olderThanDays: number;
  /** Ends it after the picture, or the scan of some of them, that is in progress. */
  signal?: AbortSignal | undefined;
};

/**
 * Removes pictures that no listing shows and that were stored more than so many days ago, with their
 * smaller copies: those that listings showed once, and those that a job stored which ended before it could
 * record them.
 *
 * A job may be about to record a picture that is removed here. Each is removed with its row locked, the
 * bytes before the row is gone for good: whoever records the picture meanwhile waits for that, and then
 * finds that its bytes are missing (see record.ts). What is recorded already is passed by.
 * @returns How many.
 * @throws What the store or the database throws; what was removed until then stays removed.
 */
export async function cleanUpImages(deps: Deps, options: CleanupOptions): Promise<number> {
  let removed = 0;
  for await (const sha256 of findUnreferenced(deps, options)) {
    if (options.signal?.aborted === true) return removed;
    const { db, store } = deps;
    if (await removeUnreferenced(db, sha256, () => store.remove(sha256))) removed += 1;
  }
  return removed;
}

async function* findUnreferenced(deps: Deps, options: CleanupOptions): AsyncGenerator<string> {
  yield* recorded(deps, options);
  yield* unrecorded(deps, options);
}

async function* recorded({ db }: Deps, { olderThanDays, signal }: CleanupOptions) {
  let scan: Scan | undefined;
  do {
    if (signal?.aborted === true) return;
    scan = await scanForUnreferenced(db, { after: scan?.last ?? '', olderThanDays, limit: BATCH });
    yield* scan?.unreferenced ?? [];
  } while (scan !== undefined);
}

/** Bytes without a row. */
async function* unrecorded({ db, store }: Deps, { olderThanDays, signal }: CleanupOptions) {
  const latest = Date.now() - olderThanDays * DAY_MS;
  for (const digits of DIGITS) {
    if (signal?.aborted === true) return;
    for await (const files of store.list(digits)) {
      const known = await findImages(db, files.map(hashOf));
      for (const { sha256, storedAt } of files) {
        if (!known.has(sha256) && (await storedAt()).getTime() < latest) yield sha256;
      }
    }
  }
}

const hashOf = ({ sha256 }: StoredFile) => sha256;
