import { type RawBuilder, sql } from 'kysely';
import type { RawError } from '../tables.ts';

/*
 * Every transition of `raw_data.status`, as the `set` list of an update.
 *
 *   from               to                          by
 *   (nothing)          pending, or processing      ingest/store.ts, within its insert
 *   pending            processing                  claimed        claim.ts
 *   ended              processing                  claimedForReprocessing   claim.ts
 *   processing         completed, invalid, failed  ended          job-writes.ts
 *   processing         pending, or failed          returned       job-writes.ts
 *   processing         pending, or failed          rescued        job-writes.ts
 *   failed, invalid    pending                     requeued        retry.ts
 *
 * "Or failed": the images came with the request and are gone, or the attempts are spent.
 * Specification 001, Raw data status; Contract 4, Queue.
 */

/** Whether the payload came with images that are gone with their request: it has to be sent again. */
export const hasLostUploads = sql<boolean>`(inline and uploads is not null)`;

/** The holder of a claim, and how long the claim lasts unless it is renewed. */
export type Claimant = { worker: string; leaseMs: number };

/** Claims a pending payload, which counts an attempt. */
export function claimed(claimant: Claimant): RawBuilder<unknown> {
  return sql`${processing(claimant)}, attempts = attempts + 1`;
}

/** Claims a payload that has ended, with all its attempts; they share a revision. */
export function claimedForReprocessing(claimant: Claimant): RawBuilder<unknown> {
  return sql`
    ${processing(claimant)}, error = null, attempts = 1, revision = attempt + 1, queued_at = now()`;
}

function processing({ worker, leaseMs }: Claimant): RawBuilder<unknown> {
  return sql`
    status = 'processing',
    attempt = attempt + 1,
    claimed_by = ${worker},
    lease_expires_at = now() + ${leaseMs} * interval '1 millisecond',
    updated_at = now()`;
}

const RELEASED = sql`
  claimed_by = null, lease_expires_at = null, attempt_usage = null, updated_at = now()`;

/** Adds a usage, which may be null, to what the attempts have cost of the model. */
export function costWith(usage: RawBuilder<unknown>): RawBuilder<unknown> {
  return sql`coalesce(
    (select jsonb_object_agg(
        key, value::bigint + coalesce((raw_data.model_usage ->> key)::bigint, 0))
      from jsonb_each_text(${usage})),
    raw_data.model_usage)`;
}

/**
 * Merges the stages of an attempt into those of earlier ones: each stage as it last ran, in the order of time.
 * @param attempt A JSON array of stage records.
 */
export function stagesWith(attempt: RawBuilder<unknown>): RawBuilder<unknown> {
  return sql`(
    select coalesce(jsonb_agg(record order by record ->> 'started_at', nth), '[]')
    from (
      select record, nth from jsonb_array_elements(${attempt}) with ordinality as own (record, nth)
      union all
      select record, nth
      from jsonb_array_elements(raw_data.stages) with ordinality as earlier (record, nth)
      where not exists (
        select from jsonb_array_elements(${attempt}) as newer
        where newer ->> 'stage' = record ->> 'stage')) as known)`;
}

/**
 * Ends a job as the row `ending` says (`status`, `error`, `stages`, `listing_id`, `model_usage`). The images of a
 * completed inline job are stored, so it is like any other from then on.
 */
export const ended = sql`
  status = ending.status,
  error = ending.error,
  stages = ${stagesWith(sql`ending.stages`)},
  listing_id = coalesce(ending.listing_id, raw_data.listing_id),
  model_usage = ${costWith(sql`ending.model_usage`)},
  inline = raw_data.inline and ending.status <> 'completed',
  ${RELEASED}`;

const interrupted: RawError = {
  code: 'interrupted',
  message:
    'The database or the disk was not available, or the process was stopped. The images are gone: send the payload again.',
};

/**
 * Returns a job to the queue: its attempt does not count. The row `back` has its `stages`, `model_usage`, `error` and
 * `retry_ms`, after which it may be claimed again.
 */
export const returned = sql`
  status = case when ${hasLostUploads} then 'failed' else 'pending' end,
  error = case when ${hasLostUploads} then ${JSON.stringify(interrupted)}::jsonb
    else coalesce(back.error, raw_data.error) end,
  attempts = case when ${hasLostUploads} then attempts else attempts - 1 end,
  retry_at = now() + back.retry_ms * interval '1 millisecond',
  inline = ${hasLostUploads},
  stages = ${stagesWith(sql`back.stages`)},
  model_usage = ${costWith(sql`back.model_usage`)},
  ${RELEASED}`;

const leaseLost: RawError = {
  code: 'lease_lost',
  message: 'Each worker that took this payload ended before it was done.',
};

const uploadsLost: RawError = {
  code: 'lease_lost',
  message:
    'The process that took this payload and its images ended before it was done. Send it again.',
};

/** Takes a job from a worker that is gone: its attempt counts, and the last one fails the job. */
export function rescued(maxAttempts: number): RawBuilder<unknown> {
  const spent = sql`(${hasLostUploads} or attempts >= ${maxAttempts})`;
  return sql`
    status = case when ${spent} then 'failed' else 'pending' end,
    error = case
      when ${hasLostUploads} then ${JSON.stringify(uploadsLost)}::jsonb
      when ${spent} then ${JSON.stringify(leaseLost)}::jsonb end,
    inline = inline and ${spent},
    model_usage = ${costWith(sql`raw_data.attempt_usage`)},
    ${RELEASED}`;
}

/** Puts a payload that has ended back in the queue, with all its attempts. */
export const requeued = sql`
  status = 'pending', attempts = 0, error = null, inline = false, retry_at = null, queued_at = now(),
  updated_at = now()`;
