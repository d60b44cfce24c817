import { retryConflicts } from '@oselya/db';
import { type Kysely, type RawBuilder, sql } from 'kysely';
import type { ModelUsage, RawError, StageRecord, Tables } from '../tables.ts';
import { lockHeld } from './fence.sql.ts';
import type { Fence, ListingKey } from './job.ts';
import { release } from './release.sql.ts';
import { isReturned, returned } from './transitions.sql.ts';

/** A job that goes back, with the stages that it has been through and what it has cost of the model all the same. */
export type Returning = Fence & {
  /** Why it goes back, where there is a reason. */
  error?: RawError | undefined;
  stages?: readonly StageRecord[] | undefined;
  modelUsage?: ModelUsage | undefined;
};

/**
 * Puts claimed jobs back as if they had not been claimed, all in one statement: their attempts do not count.
 * One whose pictures came with its request has failed, because they will be gone. Either way the next payloads of their
 * listings may have waited for them.
 * @param options.isAgain Whether that was tried before, and its answer was lost: it may have been done.
 * @returns The ids of those whose claims still held. Where it was tried before, also of those that are back and that
 *   nobody has claimed since, whether it was that try that put them back or the rescue of lost leases.
 */
export async function returnJobs(
  db: Kysely<Tables>,
  jobs: readonly Returning[],
  { isAgain = false } = {},
): Promise<ReadonlySet<number>> {
  if (jobs.length === 0) return new Set();
  const items = jobs.map(({ rawId, attempt, stages = [], modelUsage, error = null }) => ({
    id: rawId,
    attempt,
    stages,
    error,
    model_usage: modelUsage === undefined || modelUsage.calls === 0 ? null : modelUsage,
  }));
  return returnAll(
    db,
    sql`select * from jsonb_to_recordset(${JSON.stringify(items)}::jsonb)
      as job (id bigint, attempt integer, stages jsonb, model_usage jsonb, error jsonb)`,
    isAgain,
  );
}

/** The same with what a worker of this name has claimed, except these. */
export function returnStrays(
  db: Kysely<Tables>,
  worker: string,
  known: readonly number[],
): Promise<ReadonlySet<number>> {
  return returnAll(
    db,
    sql`select id, attempt, '[]'::jsonb as stages, null::jsonb as model_usage, null::jsonb as error
      from raw_data
      where status = 'processing' and claimed_by = ${worker} and id <> all (${known}::bigint[])`,
  );
}

type Returned = ListingKey & { rawId: number };

const returnedColumns = sql`
  raw_data.id as "rawId", raw_data.source_slug as "sourceSlug", raw_data.external_id as "externalId"`;

/** @param jobs Rows with `id`, `attempt`, `stages`, `model_usage` and `error`. */
async function returnAll(
  db: Kysely<Tables>,
  jobs: RawBuilder<unknown>,
  isAgain = false,
): Promise<ReadonlySet<number>> {
  const { rows } = await retryConflicts(() =>
    sql<Returned>`
      with job as materialized (${jobs}),
      held as materialized (${lockHeld})
      update raw_data set ${returned}
      from job as back join held using (id)
      where raw_data.id = back.id
      returning ${returnedColumns}`.execute(db),
  );
  // Looked for afterwards: where the server still carried the earlier statement out, this one has waited for it.
  const earlier = isAgain ? await findReturned(db, jobs) : [];
  const back = [...rows, ...earlier];
  // What waited for those that went earlier was perhaps not let go then.
  await release(db, back);
  return new Set(back.map(({ rawId }) => rawId));
}

/** Which of some jobs, as `returnAll` has them, are back by now. */
async function findReturned(
  db: Kysely<Tables>,
  jobs: RawBuilder<unknown>,
): Promise<readonly Returned[]> {
  const { rows } = await sql<Returned>`
    with job as (${jobs})
    select ${returnedColumns} from raw_data join job using (id)
    where raw_data.attempt = job.attempt and ${isReturned}`.execute(db);
  return rows;
}
