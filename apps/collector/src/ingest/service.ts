import type { Logger } from '@oselya/kit';
import type { Kysely } from 'kysely';
import { createGroupCommit } from '../async/group-commit.ts';
import { MEBIBYTE } from '../schemas.ts';
import type { Tables } from '../tables.ts';
import { sha256 } from '../text.ts';
import { canonicalJson, type Payload } from './payload.ts';
import { type NewRawRecord, type StoredRaw, storeRaws } from './store.ts';

/** Service that stores payloads and finds their raw records. */
export type Ingest = ReturnType<typeof createIngest>;

/** Bounds of one statement, and the maximum number of concurrent statements. */
const GROUP = { maxItems: 100, maxBytes: 4 * MEBIBYTE, maxInFlight: 2 };

/**
 * Creates the ingest service. Concurrent payloads share a statement and its commit.
 * Specification 001, What the service does, 1; Contract 4, Answers.
 * @param deps.onAccepted Called after each commit, to wake a worker.
 */
export function createIngest(deps: { db: Kysely<Tables>; onAccepted: () => void; log: Logger }) {
  const { db, onAccepted, log } = deps;
  const store = createGroupCommit<NewRawRecord, StoredRaw>({
    ...GROUP,
    bytesOf: ({ payload }) => Buffer.byteLength(payload),
    async write(raws) {
      const stored = await storeRaws(db, raws, (error) =>
        log.warn({ err: error }, 'waiting payloads could not be released'),
      );
      onAccepted();
      return stored;
    },
  });
  return {
    /**
     * Stores a payload, or finds the earlier payload of its idempotency key. It is committed on
     * return.
     * @throws ProblemError `idempotency_conflict`.
     */
    store,
    /**
     * Stores a payload for a worker, with the status `pending`.
     * @throws ProblemError `idempotency_conflict`.
     */
    accept(payload: Payload, idempotencyKey?: string, requestId?: string): Promise<StoredRaw> {
      // The hash and the database share one text, since jsonb ignores the order of keys.
      const json = canonicalJson(payload);
      return store({
        source_slug: payload.source_slug,
        external_id: payload.external_id,
        payload: json,
        content_hash: sha256(json),
        idempotency_key: idempotencyKey,
        request_id: requestId,
      });
    },
    /** Returns a raw record without its payload, or undefined if the ID is unknown. */
    async find(rawId: number) {
      const row = await db
        .selectFrom('raw_data')
        .select(['id as raw_id', 'source_slug', 'external_id', 'status', 'attempts', 'error'])
        .select(['stages', 'listing_id', 'model_usage', 'created_at', 'updated_at'])
        .where('id', '=', rawId)
        .executeTakeFirst();
      return (
        row && {
          ...row,
          created_at: row.created_at.toISOString(),
          updated_at: row.updated_at.toISOString(),
        }
      );
    },
  };
}
