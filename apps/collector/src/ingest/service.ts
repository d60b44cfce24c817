import type { Kysely } from 'kysely';
import type { Tables } from '../database.ts';
import { problem } from '../errors.ts';
import { contentHash } from './content-hash.ts';
import { findRaw, insertRaw, insertRawOnce } from './repository.ts';
import type { Payload, Raw } from './schemas.ts';
import { findValueErrors } from './values.ts';

export type Ingest = {
  /**
   * Stores a payload as `pending`. When it returns the payload is committed.
   * @returns The raw id; an earlier one where the idempotency key came with the same payload before.
   * @throws ProblemError `idempotency_conflict`.
   */
  accept(payload: Payload, idempotencyKey?: string): Promise<number>;
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

/**
 * Takes payloads in. It calls no model: that is the worker's part.
 * Specification 001, What the service does, 1; Contract 4, Answers.
 * @param onAccepted Called after each commit, so that a worker need not wait for its poll.
 */
export function createIngest(deps: { db: Kysely<Tables>; onAccepted: () => void }): Ingest {
  const { db, onAccepted } = deps;
  return {
    async accept(payload, idempotencyKey) {
      const raw = {
        source_slug: payload.source_slug,
        external_id: payload.external_id,
        payload: JSON.stringify(payload),
        content_hash: contentHash(payload),
      };
      if (idempotencyKey === undefined) {
        const id = await insertRaw(db, raw);
        onAccepted();
        return id;
      }
      const stored = await insertRawOnce(db, raw, idempotencyKey);
      if (stored.contentHash !== raw.content_hash) throw problem('idempotency_conflict');
      onAccepted();
      return stored.id;
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
