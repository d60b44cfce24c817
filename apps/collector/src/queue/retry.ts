import { type Kysely, sql } from 'kysely';
import { problem } from '../errors.ts';
import type { Tables } from '../tables.ts';
import { release } from './claim.ts';
import { hasUnfinishedPayload } from './fence.ts';
import type { ListingKey } from './job-types.ts';
import { hasLostUploads, requeued } from './transitions.ts';

/** How many payloads one statement changes: it holds their locks for a moment only. */
const BATCH = 1000;

const IMAGES_GONE =
  'The payload came with its images, which are kept only when it is completed: send it again with them.';

/** Creates the retry of payloads that ended `failed` or `invalid`. Contract 4, Operations. */
export function createPayloadRetry({
  db,
  onRetried,
}: {
  db: Kysely<Tables>;
  onRetried: () => void;
}) {
  return {
    /**
     * Puts one payload back, with all its attempts.
     * @throws ProblemError `raw_not_found`, or `not_retryable` if it ended otherwise, or its uploaded images are gone.
     */
    async one(rawId: number): Promise<void> {
      if (!(await requeuePayload(db, rawId))) throw await retryError(db, rawId);
      onRetried();
    },
    /**
     * Puts all payloads of a status back, in batches until the signal.
     * @returns How many.
     */
    async all(choice: RetryChoice, signal?: AbortSignal): Promise<number> {
      // A payload that fails again meanwhile is not put back a second time: that might never end.
      const { rows } = await sql<{ now: string }>`select now()::text as now`.execute(db);
      const endedBefore = rows[0]?.now ?? '';
      for (let retried = 0; ;) {
        const count = await requeueBatch(db, choice, endedBefore);
        retried += count;
        if (count > 0) onRetried();
        if (count < BATCH || signal?.aborted === true) return retried;
      }
    },
  };
}

type RetryChoice = { status: 'failed' | 'invalid'; source_slug?: string | undefined };

/** Puts a payload that ended badly back in the queue. Resolves to whether there was one. */
export async function requeuePayload(db: Kysely<Tables>, rawId: number): Promise<boolean> {
  const { rows } = await sql<ListingKey>`
    update raw_data set ${requeued}, waits = ${hasUnfinishedPayload(sql`raw_data`)}
    where id = ${rawId} and status in ('failed', 'invalid') and not ${hasLostUploads}
    returning source_slug as "sourceSlug", external_id as "externalId"`.execute(db);
  await release(db, rows);
  return rows.length === 1;
}

/** Returns why a payload cannot be put back. */
async function retryError(db: Kysely<Tables>, rawId: number): Promise<Error> {
  const state = await db
    .selectFrom('raw_data')
    .select(['status', hasLostUploads.as('lacksImages')])
    .where('id', '=', rawId)
    .executeTakeFirst();
  if (state === undefined) return problem('raw_not_found');
  const { status, lacksImages } = state;
  const detail = lacksImages && status !== 'processing' ? IMAGES_GONE : `The payload is ${status}.`;
  return problem('not_retryable', { detail });
}

/**
 * Puts a batch of payloads of a status back in the queue, those that ended first; it passes those that another
 * retry holds.
 * @returns How many.
 */
async function requeueBatch(
  db: Kysely<Tables>,
  { status, source_slug: source }: RetryChoice,
  endedBefore: string,
): Promise<number> {
  const { rows } = await sql<ListingKey>`
    with chosen as materialized (
      select id, source_slug, external_id from raw_data
      where status = ${status} and not ${hasLostUploads} and updated_at <= ${endedBefore}::timestamptz
        and ${source === undefined ? sql`true` : sql`source_slug = ${source}`}
      order by updated_at limit ${BATCH} for update skip locked
    ),
    judged as materialized (
      select id,
        row_number() over (partition by source_slug, external_id order by id) > 1
          or ${hasUnfinishedPayload(sql`chosen`)} as waits
      from chosen
    )
    update raw_data set ${requeued}, waits = judged.waits
    from judged where raw_data.id = judged.id
    returning source_slug as "sourceSlug", external_id as "externalId"`.execute(db);
  // The payload that one of these waits for may have ended before it was back.
  await release(db, rows);
  return rows.length;
}
