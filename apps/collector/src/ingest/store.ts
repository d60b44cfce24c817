import { leaseExpiry, prepared } from '@oselya/db';
import type { Logger } from '@oselya/kit';
import { type Kysely, sql } from 'kysely';
import { createGroupCommit, toError } from '../async/group-commit.ts';
import { problem } from '../errors.ts';
import { unblockPayloads } from '../queue/claim.ts';
import { MEBIBYTE } from '../schemas.ts';
import type { RawStatus, Tables } from '../tables.ts';
import { sha256 } from '../text.ts';
import { type Payload, serializePayload } from './payload.ts';

type NewRawRecord = {
  source_slug: string;
  external_id: string;
  /** Payload as JSON text. */
  payload: string;
  content_hash: string;
  request_id?: string | undefined;
  idempotency_key?: string | undefined;
  /** Claim of the request that processes the payload. Without it, a worker claims the payload. */
  claim?: { worker: string; leaseMs: number; hasUploads: boolean } | undefined;
};

/** Stored payload, or the earlier payload with the same idempotency key. */
export type StoredRawRecord = {
  id: number;
  contentHash: string;
  status: RawStatus;
  isNew: boolean;
  /** Whether a new payload is blocked by an unfinished payload of its listing. False for an earlier payload. */
  isBlocked: boolean;
};

type IndexedRow<Column extends keyof StoredRawRecord> = Pick<StoredRawRecord, Column> & {
  index: number;
};

/** Service that stores payloads and finds their raw records. */
export type Ingest = ReturnType<typeof createIngest>;

/** Limits on one statement, and the maximum number of concurrent statements. */
const GROUP_LIMITS = { minItems: 16, maxItems: 100, maxBytes: 4 * MEBIBYTE, maxInFlight: 2 };

/**
 * Creates the ingest service. Concurrent payloads share a statement and its commit.
 * Specification 001, What the service does, 1; Contract 4, Answers.
 * @param deps.onAccepted Called after each commit, to wake a worker.
 */
export function createIngest(deps: { db: Kysely<Tables>; onAccepted: () => void; log: Logger }) {
  const { db, onAccepted, log } = deps;
  const store = createGroupCommit<NewRawRecord, StoredRawRecord>({
    ...GROUP_LIMITS,
    getBytes: ({ payload }) => Buffer.byteLength(payload),
    async write(rawRecords) {
      const storedRecords = await storeRawRecords(db, rawRecords, (error) =>
        log.warn({ err: error }, 'blocked payloads could not be unblocked'),
      );
      onAccepted();
      return storedRecords;
    },
  });
  return {
    /**
     * Stores and commits a payload, or finds the earlier payload with the same idempotency key.
     * @throws ProblemError `idempotency_conflict`.
     */
    store,
    /**
     * Stores a payload for a worker, with the status `pending`.
     * @throws ProblemError `idempotency_conflict`.
     */
    accept(
      payload: Payload,
      idempotencyKey?: string,
      requestId?: string,
    ): Promise<StoredRawRecord> {
      // Hash and store the same canonical JSON, because jsonb ignores key order.
      const json = serializePayload(payload);
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
    async find(rawId: number, { includePayload }: { includePayload: boolean }) {
      const row = await db
        .selectFrom('raw_data')
        .select(['id as raw_id', 'source_slug', 'external_id', 'status', 'attempts', 'error'])
        .select(['stages', 'listing_id', 'model_usage', 'created_at', 'updated_at'])
        .$if(includePayload, (query) => query.select('payload'))
        .select((eb) =>
          eb
            .selectFrom('property_listings')
            .select('offers')
            .whereRef('property_listings.id', '=', 'raw_data.listing_id')
            .as('offers'),
        )
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

/**
 * Stores payloads in order, and their new sources, in one statement. Payloads with a claim
 * start as `processing`, because no worker may claim them. Specification 001, Raw data status.
 * @returns The stored payloads by index, without payloads whose idempotency keys are in use.
 */
export async function insertRawRecords(
  db: Kysely<Tables>,
  rawRecords: readonly NewRawRecord[],
): Promise<Map<number, StoredRawRecord>> {
  const hasKeys = rawRecords.some((rawRecord) => rawRecord.idempotency_key !== undefined);
  // Keys are inserted in order, because otherwise two statements with the same keys could deadlock.
  const onConflict = sql`order by source_slug, idempotency_key
    on conflict (source_slug, idempotency_key) where idempotency_key is not null do nothing`;
  const { rows } = await sql<IndexedRow<'id' | 'status' | 'isBlocked'>>`${prepared}
    with item as materialized (
      select nextval('raw_data_id_seq') as id, item.*, item.worker is not null as inline
      from jsonb_to_recordset(${toJson(rawRecords)}::jsonb) as item (
        index integer, source_slug text, external_id text, payload jsonb, content_hash text,
        idempotency_key text, request_id text, worker text, lease_ms integer, uploads jsonb)),
    source as (
      insert into sources (slug) select distinct source_slug from item order by source_slug
      on conflict do nothing),
    stored as (
      insert into raw_data
        (id, source_slug, external_id, payload, content_hash, idempotency_key, request_id, inline,
          uploads, status, attempt, attempts, claimed_by, lease_expires_at, waits)
      overriding system value
      select id, source_slug, external_id, payload, content_hash, idempotency_key, request_id, inline,
        uploads, case when inline then 'processing' else 'pending' end, inline::integer,
        inline::integer, worker, ${leaseExpiry(sql`lease_ms`)},
        not inline and (
          row_number() over (partition by source_slug, external_id order by index) > 1
          or exists (
            select from raw_data as other
            where other.source_slug = item.source_slug and other.external_id = item.external_id
              and other.status in ('pending', 'processing') offset 0))
      from item ${hasKeys ? onConflict : sql``}
      returning id, status, waits)
    select index, id, stored.status, waits as "isBlocked" from stored join item using (id)`.execute(
    db,
  );
  return new Map(
    rows.map(({ index, ...row }) => [
      index,
      { ...row, isNew: true, contentHash: rawRecords[index]?.content_hash ?? '' },
    ]),
  );
}

/** Serializes raw records without parsing their payloads, which are already JSON. */
function toJson(rawRecords: readonly NewRawRecord[]): string {
  const jsonItems = rawRecords.map(({ payload, claim, ...rawRecord }, index) => {
    const { worker, leaseMs, hasUploads } = claim ?? {};
    // The job stores the outcomes of the uploads later.
    const uploads = hasUploads === true ? [] : undefined;
    const recordJson = JSON.stringify({ index, ...rawRecord, worker, lease_ms: leaseMs, uploads });
    return `${recordJson.slice(0, -1)},"payload":${payload}}`;
  });
  return `[${jsonItems.join(',')}]`;
}

/** Maximum number of attempts to resolve an idempotency key, which can expire between the insert and the lookup. */
const MAX_KEY_ATTEMPTS = 3;

/** Condition that an idempotency key has expired: after 24 hours, or because its inline job failed. */
const hasExpiredKey = sql`(created_at < now() - interval '24 hours' or inline and status = 'failed')`;

async function findEarlier(
  db: Kysely<Tables>,
  rawRecords: ReadonlyMap<number, NewRawRecord>,
): Promise<Map<number, StoredRawRecord>> {
  const { rows } = await sql<IndexedRow<'id' | 'status' | 'contentHash'>>`
    select lookup.index, raw_data.id, raw_data.status, raw_data.content_hash as "contentHash"
    from ${selectKeys(rawRecords)}
    join raw_data using (source_slug, idempotency_key)
    where not ${hasExpiredKey}`.execute(db);
  return new Map(
    rows.map(({ index, ...earlierRecord }) => [
      index,
      { ...earlierRecord, isNew: false, isBlocked: false },
    ]),
  );
}

async function clearExpiredKeys(
  db: Kysely<Tables>,
  rawRecords: ReadonlyMap<number, NewRawRecord>,
): Promise<void> {
  await sql`
    update raw_data set idempotency_key = null
    where id in (
      select raw_data.id from ${selectKeys(rawRecords)}
      join raw_data using (source_slug, idempotency_key)
      where ${hasExpiredKey} order by raw_data.id for update of raw_data)`.execute(db);
}

function selectKeys(rawRecords: ReadonlyMap<number, NewRawRecord>) {
  const indexes = [...rawRecords.keys()];
  const sources = [...rawRecords.values()].map((rawRecord) => rawRecord.source_slug);
  const keys = [...rawRecords.values()].map((rawRecord) => rawRecord.idempotency_key);
  return sql`unnest(${indexes}::integer[], ${sources}::text[], ${keys}::text[])
    as lookup (index, source_slug, idempotency_key)`;
}

/**
 * Stores payloads in order, or finds the earlier payloads with the same idempotency keys. Among concurrent requests
 * with one key, later ones wait for the first. Every returned payload is committed. Contract 4, Answers.
 * @param onError Called if blocked payloads could not be unblocked. The queue's sweep retries this.
 * @returns For each input, the stored payload or an error: `idempotency_conflict` if the key belongs to a different
 *   payload, or the reason why the key could not be resolved.
 * @throws The error of the first insert. Its payloads are not stored, unless the connection broke during the commit.
 */
export async function storeRawRecords(
  db: Kysely<Tables>,
  rawRecords: readonly NewRawRecord[],
  onError: (error: unknown) => void,
): Promise<(StoredRawRecord | Error)[]> {
  const storedRecords = await insertRawRecords(db, rawRecords);
  // A failure affects only the missing payloads, because the others are committed.
  const failure = await resolveKeys(db, rawRecords, storedRecords).catch(toError);
  // A job that ended before the new payloads were visible could not unblock them.
  const blockedListings = rawRecords
    .filter((_, index) => storedRecords.get(index)?.isBlocked)
    .map((rawRecord) => ({ sourceSlug: rawRecord.source_slug, externalId: rawRecord.external_id }));
  await unblockPayloads(db, blockedListings).catch(onError);
  return rawRecords.map(({ content_hash }, index) => {
    const rawRecord = storedRecords.get(index);
    if (rawRecord === undefined)
      return failure ?? new Error('The idempotency key expired in the meantime');
    return rawRecord.contentHash === content_hash ? rawRecord : problem('idempotency_conflict');
  });
}

/**
 * Stores payloads whose idempotency keys have expired, and finds the earlier payloads of valid keys. The lookup comes
 * last, because it must also find payloads of concurrent requests.
 */
async function resolveKeys(
  db: Kysely<Tables>,
  rawRecords: readonly NewRawRecord[],
  storedRecords: Map<number, StoredRawRecord>,
): Promise<void> {
  const missingRecords = new Map(
    [...rawRecords.entries()].filter(([index]) => !storedRecords.has(index)),
  );
  const addStored = (index: number, rawRecord: StoredRawRecord) => {
    storedRecords.set(index, rawRecord);
    missingRecords.delete(index);
  };
  for (let attempt = 1; missingRecords.size > 0 && attempt <= MAX_KEY_ATTEMPTS; attempt += 1) {
    await clearExpiredKeys(db, missingRecords);
    const indexes = [...missingRecords.keys()];
    for (const [missingIndex, rawRecord] of await insertRawRecords(db, [
      ...missingRecords.values(),
    ])) {
      addStored(indexes[missingIndex] ?? 0, rawRecord);
    }
    if (missingRecords.size === 0) return;
    for (const [index, rawRecord] of await findEarlier(db, missingRecords))
      addStored(index, rawRecord);
  }
}
