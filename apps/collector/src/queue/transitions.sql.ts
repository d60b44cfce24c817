import { type RawBuilder, sql } from 'kysely';
import type { RawError } from '../tables.ts';

/*
 * Every transition of `raw_data.status`, as what an update of the record sets. Who may make one, and when,
 * is with the statement that does.
 *
 *   from               to                          by
 *   (nothing)          pending, or processing      ingest/repository.ts, within its insert
 *   pending            processing                  claimed        claim.sql.ts
 *   ended              processing                  claimedAgain   claim-again.sql.ts
 *   processing         completed, invalid, failed  ended          finish.sql.ts
 *   processing         pending, or failed          returned       return.sql.ts
 *   processing         pending, or failed          rescued        leases.sql.ts
 *   failed, invalid    pending                     putBack        put-back.sql.ts
 *
 * "Or failed" is a job whose pictures came with its request and are gone with it, and one that has had all
 * its attempts. Specification 001, Raw data status; Contract 4, Queue.
 */

/**
 * Whether a payload came with pictures that are gone with its request: it can but be sent again. One that a request
 * waits for and that names its pictures, or has none, can be processed at any time.
 */
export const lacksItsPictures = sql<boolean>`(inline and uploads is not null)`;

/** Who takes a job, and for how long unless the lease is renewed. */
export type Claimant = {
  /** For whoever looks at the table. */
  worker: string;
  leaseMs: number;
};

/** A worker takes the payload: its attempt is counted. */
export function claimed(claimant: Claimant): RawBuilder<unknown> {
  return sql`${processing(claimant)}, attempts = attempts + 1`;
}

/**
 * A payload that has ended is read again, with all its attempts. They share a revision: this attempt. Should its worker
 * be lost, it waits as if it had come now.
 */
export function claimedAgain(claimant: Claimant): RawBuilder<unknown> {
  return sql`
    ${processing(claimant)}, error = null, attempts = 1, revision = attempt + 1, queued_at = now()`;
}

/** What an earlier attempt went back for stays known until this one has ended. */
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

/**
 * What the attempts have cost of the model, with what one more did: null where that is not known, which adds
 * nothing. A record has null until the model could be asked.
 */
export function costWith(usage: RawBuilder<unknown>): RawBuilder<unknown> {
  return sql`coalesce(
    (select jsonb_object_agg(
        key, value::bigint + coalesce((raw_data.model_usage ->> key)::bigint, 0))
      from jsonb_each_text(${usage})),
    raw_data.model_usage)`;
}

/**
 * The stages that a payload has been through, each as it was when it last ran, in the order of these times: those
 * of an attempt, and of the others what earlier attempts have left. So a payload that waits for another attempt
 * tells which stage had failed.
 * @param attempt The records of an attempt, a JSON array.
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
 * The job has ended as `ending` says, a row with `status`, `error`, `stages`, `listing_id` and
 * `model_usage`. What its attempts cost of the model is added up. An inline one that is completed has its
 * pictures stored, and is as any other from then on.
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
    'The database or the disk was not available, or the process was stopped. The pictures are gone: send the payload again.',
};

/**
 * The job goes back as if it had not been claimed: its attempt does not count, but how far that came and what it cost
 * does, which is in a row `back` with `stages` and `model_usage`, and why it went back, `error`, where there is a
 * reason. No request waits for it any more.
 */
export const returned = sql`
  status = case when ${lacksItsPictures} then 'failed' else 'pending' end,
  error = case when ${lacksItsPictures} then ${JSON.stringify(interrupted)}::jsonb
    else coalesce(back.error, raw_data.error) end,
  attempts = case when ${lacksItsPictures} then attempts else attempts - 1 end,
  inline = ${lacksItsPictures},
  stages = ${stagesWith(sql`back.stages`)},
  model_usage = ${costWith(sql`back.model_usage`)},
  ${RELEASED}`;

/**
 * Whether a record whose attempt is known has gone back in that way, and nobody has claimed it since. One that was
 * rescued, or failed and was put back, looks the same: it waits too.
 */
export const isReturned = sql<boolean>`
  (status = 'pending' or (status = 'failed' and raw_data.error ->> 'code' = ${interrupted.code}))`;

const leaseLost: RawError = {
  code: 'lease_lost',
  message: 'Each worker that took this payload ended before it was done.',
};

const uploadsLost: RawError = {
  code: 'lease_lost',
  message:
    'The process that took this payload and its pictures ended before it was done. Send it again.',
};

/** The job's worker has gone: its attempt counts, and so does what is known of its cost; the last one fails it. */
export function rescued(maxAttempts: number): RawBuilder<unknown> {
  const spent = sql`(${lacksItsPictures} or attempts >= ${maxAttempts})`;
  return sql`
    status = case when ${spent} then 'failed' else 'pending' end,
    error = case
      when ${lacksItsPictures} then ${JSON.stringify(uploadsLost)}::jsonb
      when ${spent} then ${JSON.stringify(leaseLost)}::jsonb end,
    inline = inline and ${spent},
    model_usage = ${costWith(sql`raw_data.attempt_usage`)},
    ${RELEASED}`;
}

/** The payload waits as if it had just come, with all its attempts. What became of its stages is known until they run again. */
export const putBack = sql`
  status = 'pending', attempts = 0, error = null, inline = false, queued_at = now(), updated_at = now()`;
