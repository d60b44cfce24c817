import type { Logger } from '@oselya/kit';
import type { Kysely } from 'kysely';
import type { Tables } from '../tables.ts';
import { problem } from '../errors.ts';
import { createGroupCommit } from '../async/group-commit.ts';
import { MEBIBYTE } from '../schemas.ts';
import { sha256 } from '../text.ts';
import { canonicalJson, type Payload, findValueErrors } from './payload.ts';
import { findRaw, type KeyedRaw, type StoredRaw } from './repository.ts';
import type { Raw } from './schemas.ts';
import { storeRaws } from './store.ts';

/** A payload that was taken in: an earlier one where its idempotency key stands for that. */
export type Accepted = Pick<StoredRaw, 'status' | 'isNew'> & { rawId: number };

/** How payloads come in, by whichever route, and how one is looked up. */
export type Ingest = {
  /**
   * Stores a payload, or finds the one that its idempotency key stands for: see `storeRaws`. When it
   * returns the payload is committed.
   * @throws ProblemError `idempotency_conflict`.
   */
  store: (raw: KeyedRaw) => Promise<StoredRaw>;
  /**
   * The same for one that waits for a worker, as `pending`.
   * @param requestId Leads from the log of the request to that of the job.
   * @throws ProblemError `idempotency_conflict`.
   */
  accept(payload: Payload, idempotencyKey?: string, requestId?: string): Promise<Accepted>;
  /** A payload's way through the pipeline; undefined where there is none with this id. */
  find(rawId: number): Promise<Raw | undefined>;
};

/**
 * Refuses a payload that fits its schema but breaks a rule of values.
 * @throws ProblemError `validation_failed`, with every rule that is broken.
 */
export function checkValues(payload: Payload): void {
  const errors = findValueErrors(payload);
  if (errors.length > 0) throw problem('validation_failed', { errors });
}

/** Most payloads, and most bytes of payloads, that one statement stores. */
const MAX_GROUP = 100;
const MAX_GROUP_BYTES = 4 * MEBIBYTE;
const MAX_IN_FLIGHT = 2;

/**
 * Takes payloads in; those that come while others are being stored share a statement and its commit. It
 * calls no model: that is the worker's part. Specification 001, What the service does, 1; Contract 4,
 * Answers.
 * @param onAccepted Called after each commit, so that a worker need not wait for its poll.
 */
export function createIngest(deps: {
  db: Kysely<Tables>;
  onAccepted: () => void;
  log: Logger;
}): Ingest {
  const { db, onAccepted, log } = deps;
  const store = createGroupCommit<KeyedRaw, StoredRaw>({
    maxItems: MAX_GROUP,
    maxBytes: MAX_GROUP_BYTES,
    bytesOf: ({ payload }) => Buffer.byteLength(payload),
    maxInFlight: MAX_IN_FLIGHT,
    async write(raws) {
      const stored = await storeRaws(db, raws, (error) =>
        log.warn({ err: error }, 'payloads that wait could not be looked after'),
      );
      onAccepted();
      return stored;
    },
  });
  return {
    store,
    async accept(payload, idempotencyKey, requestId) {
      // One text for the hash and for the database, to which the order of keys means nothing.
      const json = canonicalJson(payload);
      const { id, ...stored } = await store({
        source_slug: payload.source_slug,
        external_id: payload.external_id,
        payload: json,
        content_hash: sha256(json),
        idempotency_key: idempotencyKey,
        request_id: requestId,
      });
      return { rawId: id, ...stored };
    },
    async find(rawId) {
      const row = await findRaw(db, rawId);
      if (row === undefined) return undefined;
      const { id, created_at, updated_at, ...rest } = row;
      return {
        raw_id: id,
        ...rest,
        created_at: created_at.toISOString(),
        updated_at: updated_at.toISOString(),
      };
    },
  };
}
