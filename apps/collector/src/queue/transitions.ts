import { leaseExpiry } from '@oselya/db';
import { type RawBuilder, sql } from 'kysely';
import type { RawError } from '../tables.ts';
import type { ClaimTerms } from './job-types.ts';

/*
 * Every transition of `raw_data.status`, as the SET clause of an update. Specification 001, Raw data status.
 *
 *   from               to                          SET clause
 *   (none)             pending, or processing      in the insert of ingest/store.ts
 *   pending            processing                  createClaimTransition
 *   ended              processing                  createReprocessTransition
 *   processing         completed, invalid, failed  endTransition
 *   processing         pending, or failed          endTransition of a returned job
 *   processing         pending, or failed          createRescueTransition
 *   failed, invalid    pending                     requeueTransition
 *
 * "Or failed": the images were deleted with their request, or no attempts remain.
 * Each claim increments `attempt`, the fencing number, which is never reset. `attempts` counts claims without those of
 * requeued jobs, and can be reset.
 */

/** Condition that a payload's images exist only during its request. Afterwards the source must send it again. */
export const hasDeletedUploads = sql<boolean>`(inline and uploads is not null)`;

/** Returns the SET clause that claims a pending payload and increments its attempts. */
export function createClaimTransition(terms: ClaimTerms): RawBuilder<unknown> {
  return sql`${setProcessing(terms)}, attempts = attempts + 1`;
}

/** Returns the SET clause that claims an ended payload, resets its attempts and raises its revision. */
export function createReprocessTransition(terms: ClaimTerms): RawBuilder<unknown> {
  return sql`
    ${setProcessing(terms)}, error = null, attempts = 1, revision = attempt + 1, queued_at = now()`;
}

function setProcessing({ worker, leaseMs }: ClaimTerms): RawBuilder<unknown> {
  return sql`
    status = 'processing', attempt = attempt + 1, claimed_by = ${worker},
    lease_expires_at = ${leaseExpiry(leaseMs)}, updated_at = now()`;
}

/** Usage of an attempt without a request to the model. A returned or rescued job does not record it. */
const noUsage = sql`'{"calls": 0, "input_tokens": 0, "output_tokens": 0}'::jsonb`;

const resetClaim = sql`
  claimed_by = null, lease_expires_at = null, attempt_usage = null, updated_at = now()`;

/** Returns the model usage of all attempts plus an additional usage, which may be null. */
export function sumModelUsage(usage: RawBuilder<unknown>): RawBuilder<unknown> {
  return sql`coalesce(
    (select jsonb_object_agg(
        key, value::bigint + coalesce((raw_data.model_usage ->> key)::bigint, 0))
      from jsonb_each_text(${usage})),
    raw_data.model_usage)`;
}

/** Returns the last record of each stage across all attempts, in chronological order. */
export function mergeStages(attempt: RawBuilder<unknown>): RawBuilder<unknown> {
  return sql`(
    select coalesce(jsonb_agg(record order by record ->> 'started_at', position), '[]')
    from (
      select record, position from jsonb_array_elements(${attempt}) with ordinality as current (record, position)
      union all
      select record, position
      from jsonb_array_elements(raw_data.stages) with ordinality as earlier (record, position)
      where not exists (
        select from jsonb_array_elements(${attempt}) as newer
        where newer ->> 'stage' = record ->> 'stage')) as merged)`;
}

const interruptedError: RawError = {
  code: 'interrupted',
  message:
    'The database or the disk was not available, or the process was stopped. The images were deleted: send the payload again.',
};

/**
 * SET clause that ends the claim of a job with the columns of `ending`. The attempt of a requeued job does not count. A
 * requeued job is no longer inline (processed within its request), nor is a completed one, whose images are stored.
 */
export const endTransition = sql`
  status = case when ending.status <> 'returned' then ending.status
    when ${hasDeletedUploads} then 'failed' else 'pending' end,
  error = case when ending.status <> 'returned' then ending.error
    when ${hasDeletedUploads} then ${JSON.stringify(interruptedError)}::jsonb
    else coalesce(ending.error, raw_data.error) end,
  attempts = attempts - (ending.status = 'returned' and not ${hasDeletedUploads})::integer,
  retry_at = now() + ending.retry_delay_ms * interval '1 millisecond',
  inline = inline and case ending.status
    when 'completed' then false when 'returned' then uploads is not null else true end,
  stages = ${mergeStages(sql`ending.stages`)},
  listing_id = coalesce(ending.listing_id, raw_data.listing_id),
  -- A worker that lost track of a job does not know its usage. Of two objects, jsonb compares calls first.
  model_usage = ${sumModelUsage(sql`nullif(greatest(ending.model_usage, raw_data.attempt_usage),
    case ending.status when 'returned' then ${noUsage} end)`)},
  ${resetClaim}`;

const leaseLostError: RawError = {
  code: 'lease_lost',
  message: 'Each worker that claimed this payload stopped before processing it. Retry the payload.',
};

const uploadsLostError: RawError = {
  code: 'lease_lost',
  message:
    'The process that received this payload and its images ended before the payload was processed. Send the payload again.',
};

/** Returns the SET clause that requeues a lost worker's job, or fails it after its last attempt or with uploads. */
export function createRescueTransition(maxAttempts: number): RawBuilder<unknown> {
  const isExhausted = sql`(${hasDeletedUploads} or attempts >= ${maxAttempts})`;
  return sql`
    status = case when ${isExhausted} then 'failed' else 'pending' end,
    error = case
      when ${hasDeletedUploads} then ${JSON.stringify(uploadsLostError)}::jsonb
      when ${isExhausted} then ${JSON.stringify(leaseLostError)}::jsonb end,
    inline = inline and ${isExhausted},
    model_usage = ${sumModelUsage(sql`nullif(raw_data.attempt_usage, ${noUsage})`)},
    ${resetClaim}`;
}

/** SET clause that requeues an ended payload, blocked until `unblockPayloads`, and resets its attempt count. */
export const requeueTransition = sql`
  status = 'pending', waits = true, attempts = 0, error = null, inline = false, retry_at = null,
  queued_at = now(), updated_at = now()`;
