import type { Kysely } from 'kysely';
import type { Tables } from '../tables.ts';
import { decodeInTurn } from './decoding.ts';
import { fingerprint } from './fingerprint.ts';
import { addFingerprint, listWithoutFingerprint } from './repository.ts';
import type { ImageStore } from './store/store.ts';

/**
 * Works out the fingerprints of pictures that were stored before there were any, in the order of their
 * hashes. One that cannot be read stays without, and is not in the way of those after it.
 * @param options.after Where the last turn ended; the empty text at first.
 * @param options.limit How many pictures at most.
 * @param options.onError Told of a picture that cannot be read.
 * @returns Where this turn ended; undefined where there are no more.
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
  const hashes = await listWithoutFingerprint(db, { after, limit });
  for (const sha256 of hashes) {
    if (signal.aborted) return after;
    const made = await decodeInTurn(async () => fingerprint(await store.read(sha256))).catch(
      (error: unknown) => {
        onError(error, sha256);
        return undefined;
      },
    );
    if (made !== undefined) await addFingerprint(db, sha256, made);
  }
  return hashes.at(-1);
}
