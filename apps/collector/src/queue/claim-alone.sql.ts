import { type Kysely, type RawBuilder, sql } from 'kysely';
import type { Tables } from '../database/tables.ts';
import type { Job } from './job.ts';
import { isBehind, isProcessed } from './processed.sql.ts';
import { type Claimant, claimed } from './transitions.sql.ts';

/**
 * From how many attempts on a job's next one is made alone: where it is the last, and the ones before it lost their
 * workers. Of a payload that ends whatever works on it, nobody beside it then dies (docs/adr/0021-fair-share.md).
 * @returns Undefined where a job has but one attempt: all are alike then.
 */
export function aloneFrom(maxAttempts: number): number | undefined {
  return maxAttempts > 1 ? maxAttempts - 1 : undefined;
}

/**
 * Claims the oldest job whose next attempt is made alone. Whoever asks has nothing else in progress, and takes
 * nothing else until it has ended.
 * @param options.aloneFrom As {@link aloneFrom} gives it: what is pending with attempts behind it has lost its worker
 *   as often, since nothing else leaves a pending job any.
 * @param options.except As for `claimJobs`.
 */
export async function claimAlone(
  db: Kysely<Tables>,
  options: Claimant & { aloneFrom: number; except?: number | undefined },
): Promise<Job | undefined> {
  const { aloneFrom: from, except = null, ...claimant } = options;
  const { rows } = await sql<Job>`
    update raw_data set ${claimed(claimant)}
    where id = (
      select id from raw_data as candidate
      where ${isAlone(from)} and not waits and id is distinct from ${except}::bigint
        and not ${isProcessed(sql`candidate`)} and not ${isBehind(sql`candidate`)}
      order by id + 0 limit 1 for update skip locked)
    returning id as "rawId", attempt, source_slug as "sourceSlug", external_id as "externalId",
      content_hash as "contentHash", request_id as "requestId"`.execute(db);
  return rows[0];
}

/** Whether any job waits to be claimed alone. */
export async function anyAlone(db: Kysely<Tables>, from: number): Promise<boolean> {
  const { rows } = await sql`
    select id from raw_data where ${isAlone(from)} and not waits order by id + 0 limit 1`.execute(
    db,
  );
  return rows.length > 0;
}

/** That attempts are more than none is what their index says. */
function isAlone(from: number): RawBuilder<boolean> {
  return sql<boolean>`status = 'pending' and attempts > 0 and attempts >= ${from}`;
}
