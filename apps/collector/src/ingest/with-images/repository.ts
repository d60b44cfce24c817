import { type Kysely, sql } from 'kysely';
import type { RawError, RawStatus, Tables } from '../../database.ts';
import type { UploadOutcome } from '../../images/index.ts';
import type { NewRaw } from '../repository.ts';

export type Claim = {
  /** Who processes it, for whoever looks at the table. */
  worker: string;
  leaseMs: number;
};

/** The record of a payload: a new one that is claimed, or what came earlier under its idempotency key. */
export type Stored = { rawId: number; contentHash: string; isNew: boolean };

/**
 * Stores a payload as `processing` and claimed, so that no worker takes it, and with its first one the
 * source. Under an idempotency key it finds the one that came within 24 hours; of two at the same time the
 * second waits for the first, and then finds it. One that failed gives its key up, since it can only be
 * sent again. Specification 001, Raw data status.
 * @param raw.uploads Whether pictures came along.
 */
export async function insertClaimed(
  db: Kysely<Tables>,
  raw: NewRaw & { uploads: boolean },
  claim: Claim,
  idempotencyKey: string | undefined,
): Promise<Stored> {
  if (idempotencyKey === undefined) {
    const rawId = await insert(db, raw, claim, null);
    if (rawId === undefined) throw new Error('A payload without a key met another');
    return { rawId, contentHash: raw.content_hash, isNew: true };
  }
  return db.transaction().execute(async (trx) => {
    await freeKey(trx, raw.source_slug, idempotencyKey);
    // What stood in the way may lose its key before it is looked for: then the key is free.
    const stored =
      (await insertOrFind(trx, raw, claim, idempotencyKey)) ??
      (await insertOrFind(trx, raw, claim, idempotencyKey));
    if (stored === undefined) throw new Error('An idempotency key was freed twice at one moment');
    return stored;
  });
}

async function freeKey(db: Kysely<Tables>, source: string, key: string): Promise<void> {
  await sql`update raw_data set idempotency_key = null
    where source_slug = ${source} and idempotency_key = ${key}
      and (created_at < now() - interval '24 hours' or inline and status = 'failed')`.execute(db);
}

async function insertOrFind(
  db: Kysely<Tables>,
  raw: NewRaw & { uploads: boolean },
  claim: Claim,
  key: string,
): Promise<Stored | undefined> {
  const rawId = await insert(db, raw, claim, key);
  if (rawId !== undefined) return { rawId, contentHash: raw.content_hash, isNew: true };
  const earlier = await db
    .selectFrom('raw_data')
    .select(['id', 'content_hash'])
    .where('source_slug', '=', raw.source_slug)
    .where('idempotency_key', '=', key)
    .executeTakeFirst();
  return earlier && { rawId: earlier.id, contentHash: earlier.content_hash, isNew: false };
}

/** Undefined where another has the key. */
async function insert(
  db: Kysely<Tables>,
  { uploads, ...raw }: NewRaw & { uploads: boolean },
  { worker, leaseMs }: Claim,
  idempotencyKey: string | null,
): Promise<number | undefined> {
  const inserted = await db
    .with('source', (cte) =>
      cte
        .insertInto('sources')
        .values({ slug: raw.source_slug })
        .onConflict((conflict) => conflict.doNothing()),
    )
    .insertInto('raw_data')
    .values({
      ...raw,
      inline: true,
      uploads: uploads ? '[]' : null,
      idempotency_key: idempotencyKey,
      status: 'processing',
      attempt: 1,
      attempts: 1,
      claimed_by: worker,
      lease_expires_at: sql<Date>`now() + ${leaseMs} * interval '1 millisecond'`,
    })
    .onConflict((conflict) =>
      conflict
        .columns(['source_slug', 'idempotency_key'])
        .where('idempotency_key', 'is not', null)
        .doNothing(),
    )
    .returning('id')
    .executeTakeFirst();
  return inserted?.id;
}

export type Outcome = {
  status: RawStatus;
  error: RawError | null;
  listing_id: number | null;
  images: UploadOutcome[];
};

/**
 * How a payload ended. Its images are those that came along; of a payload that said nothing new they are
 * the listing's, and of one that names addresses what became of those.
 */
export async function findOutcome(db: Kysely<Tables>, rawId: number): Promise<Outcome | undefined> {
  const { rows } = await sql<Outcome>`
    select status, error, listing_id,
      case when jsonb_array_length(coalesce(uploads, '[]')) > 0 then uploads else coalesce((
        select jsonb_agg(
          case when images.sha256 is null
            then jsonb_build_object('error', listing_images.error)
            else jsonb_build_object('sha256', images.sha256, 'width', images.width,
              'height', images.height, 'duplicate', images.created_at < raw_data.created_at)
          end order by listing_images.position)
        from property_listings
        join listing_images on listing_images.listing_id = property_listings.id
        left join images on images.sha256 = listing_images.sha256
        where property_listings.id = raw_data.listing_id
          and property_listings.raw_id = raw_data.id), '[]') end as images
    from raw_data where id = ${rawId}`.execute(db);
  return rows[0];
}
