import { type Kysely, sql } from 'kysely';
import type { Tables } from '../database.ts';

export type NewRaw = {
  source_slug: string;
  external_id: string;
  /** As JSON. */
  payload: string;
  content_hash: string;
};

/** Stores a payload and, with its first one, the source: one statement, so one round trip and commit. */
export async function insertRaw(db: Kysely<Tables>, raw: NewRaw): Promise<number> {
  const { id } = await insert(db, raw).executeTakeFirstOrThrow();
  return id;
}

/**
 * Stores a payload under an idempotency key, or finds the one that came under it within 24 hours.
 * Of two at the same time the second waits for the first, and then finds it.
 */
export async function insertRawOnce(
  db: Kysely<Tables>,
  raw: NewRaw,
  idempotencyKey: string,
): Promise<{ id: number; contentHash: string }> {
  return db.transaction().execute(async (trx) => {
    await trx
      .updateTable('raw_data')
      .set({ idempotency_key: null })
      .where('source_slug', '=', raw.source_slug)
      .where('idempotency_key', '=', idempotencyKey)
      .where('created_at', '<', sql<Date>`now() - interval '24 hours'`)
      .execute();
    // What stood in the way may have its 24 hours end before it is looked for: then the key is free.
    const stored =
      (await insertOrFind(trx, raw, idempotencyKey)) ??
      (await insertOrFind(trx, raw, idempotencyKey));
    if (stored === undefined) throw new Error('An idempotency key was freed twice at one moment');
    return stored;
  });
}

/** Undefined where the payload that stood in the way of an insertion lost its key meanwhile. */
async function insertOrFind(
  db: Kysely<Tables>,
  raw: NewRaw,
  idempotencyKey: string,
): Promise<{ id: number; contentHash: string } | undefined> {
  const inserted = await insert(db, { ...raw, idempotency_key: idempotencyKey })
    .onConflict((conflict) =>
      conflict
        .columns(['source_slug', 'idempotency_key'])
        .where('idempotency_key', 'is not', null)
        .doNothing(),
    )
    .executeTakeFirst();
  if (inserted !== undefined) return { id: inserted.id, contentHash: raw.content_hash };
  const earlier = await db
    .selectFrom('raw_data')
    .select(['id', 'content_hash'])
    .where('source_slug', '=', raw.source_slug)
    .where('idempotency_key', '=', idempotencyKey)
    .executeTakeFirst();
  return earlier && { id: earlier.id, contentHash: earlier.content_hash };
}

function insert(db: Kysely<Tables>, raw: NewRaw & { idempotency_key?: string }) {
  return db
    .with('source', (cte) =>
      cte
        .insertInto('sources')
        .values({ slug: raw.source_slug })
        .onConflict((conflict) => conflict.doNothing()),
    )
    .insertInto('raw_data')
    .values(raw)
    .returning('id');
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
      'created_at',
      'updated_at',
    ])
    .where('id', '=', rawId)
    .executeTakeFirst();
}
