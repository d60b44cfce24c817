import { type Kysely, type RawBuilder, sql } from 'kysely';
import type { Tables } from '../tables.ts';
import type { Job } from './job.ts';
import { isBehind, isProcessed } from './processed.sql.ts';
import { type Claimant, claimed } from './transitions.sql.ts';

/**
 * From how many attempts on a job's next one is made alone: where it is the last, and the ones before it lost their
 * workers. Of a payload that ends whatever works on it, nobody beside it then dies (docs/adr/0020-fair-share.md).
 * @returns Undefined where a job has but one attempt: all are alike then.
 */
export function aloneFrom(maxAttempts: number): number | undefined {
  return maxAttempts > 1 ? maxAttempts - 1 : undefined;
}

/** Which jobs: {@link claimAlone} and {@link takeDrain} go by the same. */
type Alone = Claimant & {
  /**
   * As {@link aloneFrom} gives it: what is pending with attempts behind it has lost its worker as often, since
   * nothing else leaves a pending job any.
   */
  aloneFrom: number;
  /** As for `claimJobs`. */
  except?: readonly number[] | undefined;
};

/**
 * Claims the oldest job whose next attempt is made alone. Whoever asks has nothing else in progress, and takes
 * nothing else until it has ended. What another worker is at with the row ends with its statement, so it is waited for.
 */
export async function claimAlone(db: Kysely<Tables>, options: Alone): Promise<Job | undefined> {
  const { rows } = await sql<Job>`
    update raw_data set ${claimed(options)}
    where id = (${oldestAlone(options)} for update)
    returning id as "rawId", attempt, source_slug as "sourceSlug", external_id as "externalId",
      content_hash as "contentHash", request_id as "requestId"`.execute(db);
  return rows[0];
}

/**
 * Has a worker whose slots are not empty drain them for the oldest such job, unless another one does: the job says
 * in whose favour, and is asked for again more often than a lease, or another worker may take it over. It is still
 * pending, and whoever can claim it does not wait for that worker.
 * @returns Whether it is this worker that drains.
 */
export async function takeDrain(db: Kysely<Tables>, options: Alone): Promise<boolean> {
  const { worker, leaseMs } = options;
  const { rows } = await sql`
    update raw_data set
      claimed_by = ${worker}, lease_expires_at = now() + ${leaseMs} * interval '1 millisecond'
    where id = (${oldestAlone(options)}) and status = 'pending'
      and (claimed_by is null or claimed_by = ${worker} or lease_expires_at < now())
    returning id`.execute(db);
  return rows.length > 0;
}

/** That attempts are more than none is what their index says. */
function oldestAlone({ aloneFrom: from, except }: Alone): RawBuilder<unknown> {
  return sql`
    select id from raw_data as candidate
    where status = 'pending' and attempts > 0 and attempts >= ${from} and not waits
      and id <> all (${except ?? []}::bigint[])
      and not ${isProcessed(sql`candidate`)} and not ${isBehind(sql`candidate`)}
    order by id + 0 limit 1`;
}
