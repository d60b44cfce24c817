import type { Kysely } from 'kysely';
import type { Tables } from '../tables.ts';
import { problem } from '../errors.ts';
import { release } from '../queue/claim.ts';
import { toError } from '../async/group-commit.ts';
import { findEarlier, freeKeys, insertRaws, type KeyedRaw, type StoredRaw } from './repository.ts';

/** A key is in use, or free, or was freed between two looks: more turns than that are a fault. */
const MAX_TURNS = 3;

/**
 * Stores payloads in their order, or finds for an idempotency key the payload that it stands for: the one
 * that came under it within 24 hours (see `findEarlier`). Of two at the same time the second waits for the
 * first, and then finds it. When this returns everything is committed. All that takes payloads in comes
 * through here, so a key means the same wherever it is sent. Contract 4, Answers.
 * @param onError Told where payloads that wait could not be looked after; the queue's sweep will do it.
 * @returns For each payload what is stored for it, or why nothing is: `idempotency_conflict` where its key
 *   stands for another one.
 * @throws What the database throws; then nothing is stored.
 */
export async function storeRaws(
  db: Kysely<Tables>,
  raws: readonly KeyedRaw[],
  onError: (error: unknown) => void,
): Promise<(StoredRaw | Error)[]> {
  const stored = await insertRaws(db, raws);
  const failure = stored.size < raws.length ? await settleKeys(db, raws, stored) : undefined;
  await release(db, listingsThatWait(raws, stored)).catch(onError);
  return raws.map(({ content_hash }, n) => {
    const one = stored.get(n);
    if (one === undefined) return failure ?? unsettled();
    return one.contentHash === content_hash ? one : problem('idempotency_conflict');
  });
}

/**
 * Adds to what is stored what has come under the same idempotency keys before, or could not be stored for
 * a key that is free by now.
 * @returns Why something is missing still. It is not thrown: what is committed by now must not be told to
 *   have failed, nor be stored again, for another's sake.
 */
async function settleKeys(
  db: Kysely<Tables>,
  raws: readonly KeyedRaw[],
  stored: Map<number, StoredRaw>,
): Promise<Error | undefined> {
  try {
    for (let turn = 0; turn < MAX_TURNS; turn += 1) {
      for (const [n, raw] of await findEarlier(db, missing(raws, stored))) stored.set(n, raw);
      const rest = missing(raws, stored);
      if (rest.size === 0) return undefined;
      await freeKeys(db, rest);
      const places = [...rest.keys()];
      for (const [nth, raw] of await insertRaws(db, [...rest.values()])) {
        const place = places[nth];
        if (place !== undefined) stored.set(place, raw);
      }
      if (stored.size === raws.length) return undefined;
    }
    return unsettled();
  } catch (error) {
    return toError(error);
  }
}

function unsettled(): Error {
  return new Error('An idempotency key was freed again and again');
}

function missing(raws: readonly KeyedRaw[], stored: ReadonlyMap<number, StoredRaw>) {
  return new Map([...raws.entries()].filter(([n]) => !stored.has(n)));
}

/**
 * What these payloads were stored behind may have ended before they were there to be seen by whoever
 * ended it.
 */
function listingsThatWait(raws: readonly KeyedRaw[], stored: ReadonlyMap<number, StoredRaw>) {
  return raws
    .filter((_, n) => stored.get(n)?.waits)
    .map((raw) => ({ sourceSlug: raw.source_slug, externalId: raw.external_id }));
}
