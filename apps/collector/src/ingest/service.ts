import type { Logger, RateLimit } from '@oselya/kit';
import type { Kysely } from 'kysely';
import type { Static } from 'typebox';
import { createGroupCommit } from '../async/group-commit.ts';
import { MEBIBYTE } from '../schemas.ts';
import type { Tables } from '../tables.ts';
import { sha256 } from '../text.ts';
import { canonicalJson, type Payload } from './payload.ts';
import type { rawSchema } from './schemas.ts';
import { type NewRawRecord, type StoredRaw, storeRaws } from './store.ts';

/** Accepts payloads, and finds them. */
export type Ingest = {
  /**
   * Stores a payload, or finds the earlier one of its idempotency key: see `storeRaws`. On return it is committed.
   * @throws ProblemError `idempotency_conflict`.
   */
  store: (raw: NewRawRecord) => Promise<StoredRaw>;
  /**
   * Stores a payload that waits for a worker, as `pending`.
   * @param requestId Connects the log of the request with that of the job.
   * @throws ProblemError `idempotency_conflict`.
   */
  accept(payload: Payload, idempotencyKey?: string, requestId?: string): Promise<StoredRaw>;
  /** Returns a payload's way through the pipeline; undefined if there is none with this id. */
  find(rawId: number): Promise<Static<typeof rawSchema> | undefined>;
};

/** The most payloads, and the most bytes, that one statement stores, and the most statements at once. */
const MAX_GROUP = 100;
const MAX_GROUP_BYTES = 4 * MEBIBYTE;
const MAX_IN_FLIGHT = 2;

/**
 * Creates the acceptance of payloads. Those that come while others are being stored share a statement and its commit.
 * Specification 001, What the service does, 1; Contract 4, Answers.
 * @param deps.onAccepted Called after each commit, so that a worker need not wait for its poll.
 */
export function createIngest(deps: {
  db: Kysely<Tables>;
  onAccepted: () => void;
  log: Logger;
}): Ingest {
  const { db, onAccepted, log } = deps;
  const store = createGroupCommit<NewRawRecord, StoredRaw>({
    maxItems: MAX_GROUP,
    maxBytes: MAX_GROUP_BYTES,
    bytesOf: ({ payload }) => Buffer.byteLength(payload),
    maxInFlight: MAX_IN_FLIGHT,
    async write(raws) {
      const stored = await storeRaws(db, raws, (error) =>
        log.warn({ err: error }, 'payloads that wait could not be released'),
      );
      onAccepted();
      return stored;
    },
  });
  return {
    store,
    accept(payload, idempotencyKey, requestId) {
      // One text serves the hash and the database, which ignores the order of keys.
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
    async find(rawId) {
      const row = await db
        .selectFrom('raw_data')
        .select(['id as raw_id', 'source_slug', 'external_id', 'status', 'attempts', 'error'])
        .select(['stages', 'listing_id', 'model_usage', 'created_at', 'updated_at'])
        .where('id', '=', rawId)
        .executeTakeFirst();
      if (row === undefined) return undefined;
      return {
        ...row,
        created_at: row.created_at.toISOString(),
        updated_at: row.updated_at.toISOString(),
      };
    },
  };
}

/**
 * Counts a payload against the limits of its source and its caller, and returns the rate-limit headers.
 * @param caller As `getCallerKey` returns it.
 * @throws ProblemError as the limits do: `rate_limited`, `unavailable`.
 */
export type SourceLimit = (source: string, caller: string) => Promise<Record<string, string>>;

/** How many sources of callers are remembered as known. */
const MAX_REMEMBERED = 10_000;

/**
 * Creates the limit of payloads by source, and of new sources by caller: a client that invents a source for each payload
 * would evade the limit of sources, and each stays in the database. Specification 001, Limits.
 * @param deps.newSources The limit of one caller; without it no source is looked up.
 */
export function limitSources(deps: {
  db: Kysely<Tables>;
  perSource: RateLimit;
  newSources: RateLimit | undefined;
}): SourceLimit {
  const { db, perSource, newSources } = deps;
  if (newSources === undefined) return perSource;
  const known = new Map<string, Promise<void>>();

  async function admit(source: string, caller: string): Promise<void> {
    const row = await db
      .selectFrom('sources')
      .select('slug')
      .where('slug', '=', source)
      .executeTakeFirst();
    if (row === undefined) await newSources?.(caller);
  }

  return async (source, caller) => {
    // Concurrent first payloads of a source count as one.
    const key = `${source} ${caller}`;
    if (known.size >= MAX_REMEMBERED) known.clear();
    const admitted = known.get(key) ?? admit(source, caller);
    known.set(key, admitted);
    await admitted.catch((error: unknown) => {
      known.delete(key);
      throw error;
    });
    return perSource(source);
  };
}
