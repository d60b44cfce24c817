import { prepared } from '@oselya/db';
import { type Kysely, sql } from 'kysely';
import type { RawStatus, Tables } from '../tables.ts';

/** A payload as it is stored. */
export type NewRaw = {
  source_slug: string;
  external_id: string;
  /** As JSON. */
  payload: string;
  content_hash: string;
  /** The request that brought it. */
  request_id?: string | undefined;
};

/** A payload to store, under an idempotency key where it has one. */
export type KeyedRaw = NewRaw & {
  idempotency_key?: string | undefined;
  /** For one that is processed within its request; without it a worker takes the payload. */
  claim?: InlineClaim | undefined;
};

/** Who processes a payload that a worker must not take. */
export type InlineClaim = {
  /** For whoever looks at the table. */
  worker: string;
  /** How long the record waits for that process to be heard of. */
  leaseMs: number;
  /** Whether pictures came along. */
  uploads: boolean;
};

/** A payload that is stored: another one where the idempotency key had come before. */
export type StoredRaw = {
  id: number;
  contentHash: string;
  status: RawStatus;
  /** Whether it was stored now: false for the one that its idempotency key has brought before. */
  isNew: boolean;
  /** Whether it was stored behind another payload of its listing. */
  waits: boolean;
};

type Row = { n: number; id: number; status: RawStatus; waits: boolean };
type Earlier = { n: number; id: number; status: RawStatus; contentHash: string };

/**
 * Stores payloads, in their order, and with its first one each source: one statement, so one round trip
 * and one commit for all of them. Those with a claim are `processing` from the outset, so that no worker
 * takes them. Specification 001, Raw data status.
 * @returns What was stored, by the place of the payload; none where the idempotency key is in use, be it
 *   by a payload before it in the same list.
 */
export async function insertRaws(
  db: Kysely<Tables>,
  raws: readonly KeyedRaw[],
): Promise<Map<number, StoredRaw>> {
  const keyed = raws.some((raw) => raw.idempotency_key !== undefined);
  // Keys are taken in their order: two statements that took the same ones in another could wait for one
  // another. Without any, looking for conflicts would be for nothing.
  const onConflict = sql`order by source_slug, idempotency_key
    on conflict (source_slug, idempotency_key) where idempotency_key is not null do nothing`;
  const { rows } = await sql<Row>`${prepared}
    with item as materialized (
      select nextval('raw_data_id_seq') as id, item.*, item.worker is not null as inline
      from jsonb_to_recordset(${toJson(raws)}::jsonb) as item (
        n integer, source_slug text, external_id text, payload jsonb, content_hash text,
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
        inline::integer, worker, now() + lease_ms * interval '1 millisecond',
        not inline and (
          row_number() over (partition by source_slug, external_id order by n) > 1
          or exists (
            select from raw_data as other
            where other.source_slug = item.source_slug and other.external_id = item.external_id
              and other.status in ('pending', 'processing') offset 0))
      from item ${keyed ? onConflict : sql``}
      returning id, status, waits)
    select n, id, stored.status, waits from stored join item using (id)`.execute(db);
  return new Map(
    rows.map(({ n, ...row }) => [
      n,
      { ...row, isNew: true, contentHash: raws[n]?.content_hash ?? '' },
    ]),
  );
}

/** The payloads are JSON already; to parse and write them once more would cost more than all the rest. */
function toJson(raws: readonly KeyedRaw[]): string {
  const items = raws.map(({ payload, claim, ...raw }, n) => {
    const rest = JSON.stringify({ n, ...raw, ...(claim && claimColumns(claim)) });
    return `${rest.slice(0, -1)},"payload":${payload}}`;
  });
  return `[${items.join(',')}]`;
}

function claimColumns({ worker, leaseMs, uploads }: InlineClaim) {
  // What becomes of the pictures is added when they are stored.
  return { worker, lease_ms: leaseMs, ...(uploads ? { uploads: [] } : {}) };
}

/**
 * When an idempotency key no longer stands for its payload: 24 hours after it came, or once it failed within its
 * request, which was told so and is sent again. Any other that failed is put back in the queue by whoever runs it.
 * It is the one place that says so.
 */
const IS_SPENT = sql`(created_at < now() - interval '24 hours' or inline and status = 'failed')`;

/** The payloads that these idempotency keys stand for, by place. */
export async function findEarlier(
  db: Kysely<Tables>,
  raws: ReadonlyMap<number, KeyedRaw>,
): Promise<Map<number, StoredRaw>> {
  const { rows } = await sql<Earlier>`
    select wanted.n, raw_data.id, raw_data.status, raw_data.content_hash as "contentHash"
    from ${wanted(raws)}
    join raw_data using (source_slug, idempotency_key)
    where not ${IS_SPENT}`.execute(db);
  return new Map(rows.map(({ n, ...earlier }) => [n, { ...earlier, isNew: false, waits: false }]));
}

/** Takes the idempotency keys from payloads that they no longer stand for. */
export async function freeKeys(
  db: Kysely<Tables>,
  raws: ReadonlyMap<number, KeyedRaw>,
): Promise<void> {
  await sql`
    update raw_data set idempotency_key = null
    from ${wanted(raws)}
    where raw_data.source_slug = wanted.source_slug
      and raw_data.idempotency_key = wanted.idempotency_key
      and ${IS_SPENT}`.execute(db);
}

function wanted(raws: ReadonlyMap<number, KeyedRaw>) {
  const places = [...raws.keys()];
  const sources = [...raws.values()].map((raw) => raw.source_slug);
  const keys = [...raws.values()].map((raw) => raw.idempotency_key);
  return sql`unnest(${places}::integer[], ${sources}::text[], ${keys}::text[])
    as wanted (n, source_slug, idempotency_key)`;
}

/** Whether a payload of this source has been stored before. */
export async function isKnownSource(db: Kysely<Tables>, slug: string): Promise<boolean> {
  const found = await db
    .selectFrom('sources')
    .select('slug')
    .where('slug', '=', slug)
    .executeTakeFirst();
  return found !== undefined;
}

/** A payload's record without the payload itself. */
export function findRaw(db: Kysely<Tables>, rawId: number) {
  return db
    .selectFrom('raw_data')
    .select([
      'id',
      'source_slug',
      'external_id',
      'status',
      'attempts',
      'error',
      'stages',
      'listing_id',
      'model_usage',
      'created_at',
      'updated_at',
    ])
    .where('id', '=', rawId)
    .executeTakeFirst();
}
