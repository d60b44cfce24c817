import { type Kysely, type RawBuilder, sql } from 'kysely';
import { problem } from '../errors.ts';
import type { Tables } from '../tables.ts';
import { releaseListings } from './claim.ts';
import { hasUnfinishedPayload } from './fence.ts';
import type { ListingKey } from './job-types.ts';
import { hasLostUploads, requeueTransition } from './transitions.ts';

/** Maximum number of payloads per statement, to hold their locks only briefly. */
const MAX_BATCH_SIZE = 1000;

const IMAGES_GONE_DETAIL =
  'The images of the payload were uploaded with it and have been deleted: send the payload again with its images.';

/**
 * Creates the retry of payloads that ended `failed` or `invalid`. Contract 4, Operations.
 * @param deps.onRetried Called after each commit, to wake a worker.
 */
export function createPayloadRetry(deps: { db: Kysely<Tables>; onRetried: () => void }) {
  const { db, onRetried } = deps;
  return {
    /**
     * Returns a payload to the queue, with all its attempts.
     * @throws ProblemError `raw_not_found`, or `not_retryable` for another status or missing images.
     */
    async retryOne(rawId: number): Promise<void> {
      if (!(await requeuePayload(db, rawId))) throw await createRetryError(db, rawId);
      onRetried();
    },
    /**
     * Returns all payloads of a status to the queue, in batches until the signal aborts.
     * @returns Number of payloads.
     */
    async retryAll(
      {
        status,
        source_slug: source,
      }: { status: 'failed' | 'invalid'; source_slug?: string | undefined },
      signal?: AbortSignal,
    ): Promise<number> {
      // Payloads that fail again during the retry stay failed. Otherwise the retry might never end.
      const { rows } = await sql<{ now: string }>`select now()::text as now`.execute(db);
      const endedBefore = rows[0]?.now ?? '';
      const selection = sql`status = ${status} and updated_at <= ${endedBefore}::timestamptz
        and ${source === undefined ? sql`true` : sql`source_slug = ${source}`}
        order by updated_at limit ${MAX_BATCH_SIZE} for update skip locked`;
      for (let retriedCount = 0; ;) {
        const count = await requeue(db, selection);
        retriedCount += count;
        if (count > 0) onRetried();
        if (count < MAX_BATCH_SIZE || signal?.aborted === true) return retriedCount;
      }
    },
  };
}

/**
 * Returns a failed or invalid payload to the queue.
 * @returns False if the payload has another status or lost its uploads.
 */
export async function requeuePayload(db: Kysely<Tables>, rawId: number): Promise<boolean> {
  return (
    (await requeue(db, sql`id = ${rawId} and status in ('failed', 'invalid') for update`)) === 1
  );
}

async function createRetryError(db: Kysely<Tables>, rawId: number): Promise<Error> {
  const raw = await db
    .selectFrom('raw_data')
    .select(['status', hasLostUploads.as('hasLostUploads')])
    .where('id', '=', rawId)
    .executeTakeFirst();
  if (raw === undefined) return problem('raw_not_found');
  const areImagesGone = raw.hasLostUploads && raw.status !== 'processing';
  const detail = areImagesGone ? IMAGES_GONE_DETAIL : `The payload is ${raw.status}.`;
  return problem('not_retryable', { detail });
}

/**
 * Returns payloads with their uploads to the queue.
 * @param selection Conditions, order, limit and lock of the payloads.
 * @returns Number of payloads.
 */
async function requeue(db: Kysely<Tables>, selection: RawBuilder<unknown>): Promise<number> {
  const { rows } = await sql<ListingKey>`
    with chosen as materialized (
      select id, source_slug, external_id from raw_data
      where not ${hasLostUploads} and ${selection}),
    judged as materialized (
      select id,
        row_number() over (partition by source_slug, external_id order by id) > 1
          or ${hasUnfinishedPayload(sql`chosen`)} as waits
      from chosen)
    update raw_data set ${requeueTransition}, waits = judged.waits
    from judged where raw_data.id = judged.id
    returning source_slug as "sourceSlug", external_id as "externalId"`.execute(db);
  // An earlier payload of the listing may have ended during the update.
  await releaseListings(db, rows);
  return rows.length;
}
