import { type Kysely, type RawBuilder, sql } from 'kysely';
import { problem } from '../errors.ts';
import type { Tables } from '../tables.ts';
import { unblockPayloads } from './claim.ts';
import type { ListingKey } from './job-types.ts';
import { hasDeletedUploads, requeueTransition } from './transitions.ts';

/** Maximum number of payloads per statement, to hold their locks only briefly. */
const MAX_BATCH_SIZE = 1000;

const UPLOADS_DELETED_DETAIL =
  'The images of the payload were uploaded with it and have been deleted: send the payload again with its images.';

/**
 * Requeues a failed or invalid payload and resets its attempt count. Contract 4, Operations.
 * @throws ProblemError `raw_not_found`, or `not_retryable` for a different status or deleted images.
 */
export async function retryPayload(db: Kysely<Tables>, rawId: number): Promise<void> {
  const count = await requeue(
    db,
    sql`id = ${rawId} and status in ('failed', 'invalid') for update`,
  );
  if (count === 1) return;
  const rawRecord = await db
    .selectFrom('raw_data')
    .select(['status', hasDeletedUploads.as('hasDeletedUploads')])
    .where('id', '=', rawId)
    .executeTakeFirst();
  if (rawRecord === undefined) throw problem('raw_not_found');
  const hasDeletedImages = rawRecord.hasDeletedUploads && rawRecord.status !== 'processing';
  const detail = hasDeletedImages ? UPLOADS_DELETED_DETAIL : `The payload is ${rawRecord.status}.`;
  throw problem('not_retryable', { detail });
}

/**
 * Requeues all payloads that match a filter, except those whose uploads were deleted, in batches, until `signal` is
 * aborted. Contract 4, Operations.
 * @param onRetried Called after each commit that requeued payloads, to wake a worker.
 * @returns The number of requeued payloads.
 */
export async function retryPayloads(
  db: Kysely<Tables>,
  filter: { status: 'failed' | 'invalid'; source_slug?: string | undefined },
  onRetried: () => void,
  signal?: AbortSignal,
): Promise<number> {
  const { status, source_slug: source } = filter;
  // Payloads that fail again during the retry stay failed. Otherwise the retry might never end.
  const { rows } = await sql<{ started_at: string }>`select now()::text as started_at`.execute(db);
  const selection = sql`status = ${status} and updated_at <= ${rows[0]?.started_at}::timestamptz
    and ${source === undefined ? sql`true` : sql`source_slug = ${source}`}
    order by updated_at limit ${MAX_BATCH_SIZE} for update skip locked`;
  for (let retriedCount = 0; ;) {
    const count = await requeue(db, selection);
    retriedCount += count;
    if (count > 0) onRetried();
    if (count < MAX_BATCH_SIZE || signal?.aborted === true) return retriedCount;
  }
}

/**
 * Requeues the selected payloads, except those whose uploads were deleted.
 * @param selection Conditions, order, limit and lock of the payloads.
 * @returns The number of requeued payloads.
 */
async function requeue(db: Kysely<Tables>, selection: RawBuilder<unknown>): Promise<number> {
  const { rows } = await sql<ListingKey>`
    update raw_data set ${requeueTransition}
    where id = any (array(select id from raw_data where not ${hasDeletedUploads} and ${selection}))
    returning source_slug as "sourceSlug", external_id as "externalId"`.execute(db);
  await unblockPayloads(db, rows);
  return rows.length;
}
