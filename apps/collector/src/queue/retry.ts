import { type Kysely, type RawBuilder, sql } from 'kysely';
import { problem } from '../errors.ts';
import type { Tables } from '../tables.ts';
import { releaseListings } from './claim.ts';
import type { ListingKey } from './job-types.ts';
import { hasLostUploads, requeueTransition } from './transitions.ts';

/** Maximum number of payloads per statement, to hold their locks only briefly. */
const MAX_BATCH_SIZE = 1000;

const IMAGES_GONE_DETAIL =
  'The images of the payload were uploaded with it and have been deleted: send the payload again with its images.';

/**
 * Returns a failed or invalid payload to the queue, with all its attempts. Contract 4, Operations.
 * @throws ProblemError `raw_not_found`, or `not_retryable` for another status or missing images.
 */
export async function retryPayload(db: Kysely<Tables>, rawId: number): Promise<void> {
  const count = await requeue(
    db,
    sql`id = ${rawId} and status in ('failed', 'invalid') for update`,
  );
  if (count === 1) return;
  const raw = await db
    .selectFrom('raw_data')
    .select(['status', hasLostUploads.as('hasLostUploads')])
    .where('id', '=', rawId)
    .executeTakeFirst();
  if (raw === undefined) throw problem('raw_not_found');
  const areImagesGone = raw.hasLostUploads && raw.status !== 'processing';
  const detail = areImagesGone ? IMAGES_GONE_DETAIL : `The payload is ${raw.status}.`;
  throw problem('not_retryable', { detail });
}

/**
 * Returns all payloads of a status to the queue, in batches until the signal aborts. Contract 4, Operations.
 * @param onRetried Called after each commit, to wake a worker.
 * @returns Number of payloads.
 */
export async function retryPayloads(
  db: Kysely<Tables>,
  filter: { status: 'failed' | 'invalid'; source_slug?: string | undefined },
  onRetried: () => void,
  signal?: AbortSignal,
): Promise<number> {
  const { status, source_slug: source } = filter;
  // Payloads that fail again during the retry stay failed. Otherwise the retry might never end.
  const { rows } = await sql<{ now: string }>`select now()::text as now`.execute(db);
  const selection = sql`status = ${status} and updated_at <= ${rows[0]?.now}::timestamptz
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
 * Returns payloads with their uploads to the queue.
 * @param selection Conditions, order, limit and lock of the payloads.
 * @returns Number of payloads.
 */
async function requeue(db: Kysely<Tables>, selection: RawBuilder<unknown>): Promise<number> {
  const { rows } = await sql<ListingKey>`
    update raw_data set ${requeueTransition}
    where id = any (array(select id from raw_data where not ${hasLostUploads} and ${selection}))
    returning source_slug as "sourceSlug", external_id as "externalId"`.execute(db);
  await releaseListings(db, rows);
  return rows.length;
}
