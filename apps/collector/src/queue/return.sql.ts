import { retryConflicts } from '@oselya/db';
import { type Kysely, type RawBuilder, sql } from 'kysely';
import type { ModelUsage, Tables } from '../database/tables.ts';
import { lockHeld } from './fence.sql.ts';
import type { Fence, ListingKey } from './job.ts';
import { release } from './release.sql.ts';
import { returned } from './transitions.sql.ts';

/** A job that goes back, and what it has cost of the model all the same. */
export type Returning = Fence & { modelUsage?: ModelUsage | undefined };

/**
 * Puts claimed jobs back as if they had not been claimed, all in one statement: their attempts do not count.
 * One whose pictures came with its request has failed, because they will be gone. Either way the next payloads of their
 * listings may have waited for them.
 * @returns The ids of those whose claims still held.
 */
export async function returnJobs(
  db: Kysely<Tables>,
  jobs: readonly Returning[],
): Promise<ReadonlySet<number>> {
  if (jobs.length === 0) return new Set();
  const items = jobs.map(({ rawId, attempt, modelUsage }) => ({
    id: rawId,
    attempt,
    model_usage: modelUsage === undefined || modelUsage.calls === 0 ? null : modelUsage,
  }));
  return returnAll(
    db,
    sql`select * from jsonb_to_recordset(${JSON.stringify(items)}::jsonb)
      as job (id bigint, attempt integer, model_usage jsonb)`,
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
    sql`select id, attempt, null::jsonb as model_usage from raw_data
      where status = 'processing' and claimed_by = ${worker} and id <> all (${known}::bigint[])`,
  );
}

/** @param jobs Rows with `id`, `attempt` and `model_usage`. */
async function returnAll(
  db: Kysely<Tables>,
  jobs: RawBuilder<unknown>,
): Promise<ReadonlySet<number>> {
  const { rows } = await retryConflicts(() =>
    sql<ListingKey & { rawId: number }>`
      with job as materialized (${jobs}),
      held as materialized (${lockHeld})
      update raw_data set ${returned}
      from job as back join held using (id)
      where raw_data.id = back.id
      returning raw_data.id as "rawId", raw_data.source_slug as "sourceSlug",
        raw_data.external_id as "externalId"`.execute(db),
  );
  await release(db, rows);
  return new Set(rows.map(({ rawId }) => rawId));
}
