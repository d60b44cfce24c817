import { type Kysely, type RawBuilder, sql } from 'kysely';
import type { Tables } from '../database/tables.ts';
import type { Job } from './job.ts';
import { isProcessed } from './processed.sql.ts';
import { type Claimant, claimed } from './transitions.sql.ts';

export type ClaimOptions = Claimant & {
  /** How many jobs at most. */
  count: number;
  /** The source that was taken from last: the round goes on after it. */
  lastSource?: string | undefined;
  /** A job to leave alone: what a failing model is tried with next is then another payload. */
  except?: number | undefined;
};

/**
 * Over how many sources a claim spreads, while these have enough. To look at one costs as much as a few jobs.
 */
const MAX_SOURCES = 16;

/**
 * Claims pending jobs, an equal share of each source that has any and the oldest of each source first,
 * beginning after the source that was taken from last: a source with 100,000 of them does not hold up
 * another's single one. It is one statement, so no two workers get the same job, and it goes on from
 * source to source only until it has enough, however many sources and payloads there are. The next claim
 * goes on where this one ended.
 *
 * The payloads of a listing are taken in the order in which they came: none is claimed while an earlier
 * one is pending or any is processed. Almost all that this would refuse are marked with `waits` and not
 * looked at (see release.sql.ts). `offset 0` keeps the look at one listing from becoming a join over all
 * of them, and `id + 0` is what the indexes for these looks are made of. Specification 001, Raw data status;
 * Contract 4, Queue.
 * @returns The jobs, in the order of the round. None says that there are none, fewer than asked for do not.
 */
export async function claimJobs(db: Kysely<Tables>, options: ClaimOptions): Promise<Job[]> {
  return (await claimStatement(options).execute(db)).rows;
}

/** The statement alone, for whoever wants to see its plan. */
export function claimStatement(options: ClaimOptions): RawBuilder<Job> {
  const { count, lastSource = '', except = null, ...claimant } = options;
  return sql<Job>`
    with recursive
    after as (
      (${nextSource(sql`${lastSource}`)})
      union all
      select next.source_slug from after
      cross join lateral (${nextSource(sql`after.source_slug`)}) as next),
    before as (
      (${nextSource(sql`''`)})
      union all
      select next.source_slug from before
      cross join lateral (${nextSource(sql`before.source_slug`)}) as next
      where next.source_slug <= ${lastSource}),
    round as materialized (
      select source_slug from after
      union all
      select source_slug from before where source_slug <= ${lastSource}),
    chosen as materialized (
      select id, row_number() over () as turn from (
        select job.id from round
        cross join lateral (
          select id from raw_data as candidate
          where source_slug = round.source_slug and status = 'pending' and not waits
            and id is distinct from ${except}::bigint
            and not ${isProcessed(sql`candidate`)}
            and not exists (
              select from raw_data as other
              where other.source_slug = candidate.source_slug
                and other.external_id = candidate.external_id
                and other.status = 'pending' and other.id + 0 < candidate.id offset 0)
          order by id + 0
          limit (
            select ceil(${count}::numeric / count(*))
            from (select from round limit ${Math.min(count, MAX_SOURCES)}) as source)
          for update skip locked) as job
        limit ${count}) as taken),
    claimed as (
      update raw_data set ${claimed(claimant)}
      where id = any (array(select id from chosen))
      returning id, attempt, source_slug, external_id, content_hash, request_id)
    select id as "rawId", attempt, source_slug as "sourceSlug", external_id as "externalId",
      content_hash as "contentHash", request_id as "requestId"
    from claimed join chosen using (id)
    order by turn`;
}

/** The first source after another one that has something to claim. */
function nextSource(bound: RawBuilder<unknown>): RawBuilder<unknown> {
  return sql`
    select source_slug from raw_data
    where status = 'pending' and not waits and source_slug > ${bound}
    order by source_slug limit 1`;
}
