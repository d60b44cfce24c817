import type { Logger } from '@oselya/kit';
import type { Kysely } from 'kysely';
import type { Tables } from '../database.ts';
import { problem } from '../errors.ts';
import { createGroupCommit } from '../group-commit.ts';
import { canonicalJson, sha256 } from './content-hash.ts';
import { findRaw, type KeyedRaw, type StoredRaw } from './repository.ts';
import type { Payload, Raw } from './schemas.ts';
import { storeRaws } from './store.ts';
import { findValueErrors } from './values.ts';

/** A payload that was taken in: an earlier one where its idempotency key has come with it before. */
export type Accepted = { rawId: number; isNew: boolean };

export type Ingest = {
  /**
   * Stores a payload as `pending`. When it returns the payload is committed.
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
const MAX_GROUP_BYTES = 4 * 1024 * 1024;
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
    async accept(payload, idempotencyKey, requestId) {
      // One text for the hash and for the database, to which the order of keys means nothing.
      const json = canonicalJson(payload);
      const content_hash = sha256(json);
      const stored = await store({
        source_slug: payload.source_slug,
        external_id: payload.external_id,
        payload: json,
        content_hash,
        idempotency_key: idempotencyKey,
        request_id: requestId,
      });
      if (stored.contentHash !== content_hash) throw problem('idempotency_conflict');
      return { rawId: stored.id, isNew: stored.isNew };
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
