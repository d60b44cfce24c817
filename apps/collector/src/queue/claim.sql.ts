import { prepared, unplanned } from '@oselya/db';
import { type Kysely, type RawBuilder, sql } from 'kysely';
import type { Tables } from '../tables.ts';
import type { Job } from './job.ts';
import { isBehind, isProcessed } from './processed.sql.ts';
import { type Claimant, claimed } from './transitions.sql.ts';

export type ClaimOptions = Claimant & {
  /** How many jobs at most. */
  count: number;
  /** The source that was taken from last: of those that have equally much in progress, the ones after it come first. */
  lastSource?: string | undefined;
  /** Jobs to leave alone: what a failing model is tried with next is then another payload. */
  except?: readonly number[] | undefined;
  /**
   * Only sources that have nothing in progress anywhere, and one job of each; none while each source that has something
   * in progress has one job, over all processes: nobody has more than a share then.
   */
  ofNewcomers?: boolean | undefined;
  /** Jobs with so many attempts behind them are left to {@link claimAlone}; none, unless given. */
  aloneFrom?: number | undefined;
};

/**
 * Over how many sources a claim spreads, while these have enough. To look at one costs as much as a few jobs.
 */
const MAX_SOURCES = 16;

/** Most jobs in progress that a claim counts: far more than there are slots anywhere. */
const MAX_COUNTED = 10_000;

/** No job has so many attempts behind it. */
const NEVER = 2 ** 31 - 1;

/**
 * Claims pending jobs for the sources that have the fewest in progress, over all processes, and levels these
 * numbers out; the oldest of each source first. So a source with 100,000 pending does not hold up another's single
 * one, however long its jobs take. Among equals the round goes on after the source that was taken from last.
 *
 * It is one statement, so no two workers get the same job. It counts what is in progress, which is as much as there
 * are slots, and goes on from source to source only until it has enough: it looks at no more sources than those it
 * takes from and those that have something in progress, however many sources and payloads there are.
 *
 * The payloads of a listing are taken in the order in which they came: none is claimed while an earlier
 * one is pending or any is processed. Almost all that this would refuse are marked with `waits` and not
 * looked at (see release.sql.ts). `offset 0` keeps the look at one listing from becoming a join over all
 * of them, and `id + 0` is what the indexes for these looks are made of. Specification 001, Raw data status;
 * Contract 4, Queue; docs/adr/0020-fair-share.md.
 * @returns The jobs, those of the sources with the fewest in progress first. None says that there are none that may
 *   be taken, fewer than asked for do not.
 */
export async function claimJobs(db: Kysely<Tables>, options: ClaimOptions): Promise<Job[]> {
  return (await claimStatement(options).execute(db)).rows;
}

/** The statement alone, for whoever wants to see its plan. */
export function claimStatement(options: ClaimOptions): RawBuilder<Job> {
  const {
    count,
    lastSource = '',
    except = [],
    ofNewcomers = false,
    aloneFrom = NEVER,
    ...claimant
  } = options;
  return sql<Job>`${prepared}
    with recursive
    busy as materialized (
      select source_slug, count(*)::integer as jobs from (
        select source_slug from raw_data where status = 'processing'
        order by source_slug limit ${sql.lit(MAX_COUNTED)}) as job
      group by source_slug),
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
    candidate_source as materialized (
      select source_slug, 0 as jobs from (
        select source_slug from after
        union all
        select source_slug from before where source_slug <= ${lastSource}) as round
      where source_slug <> all (array(select source_slug from busy))
        and (not ${unplanned(ofNewcomers)} or (select max(jobs) from busy) > 1)
      union all
      select source_slug, jobs from (
        select source_slug, jobs from busy
        order by jobs, source_slug <= ${lastSource}, source_slug offset 0) as round
      where not ${unplanned(ofNewcomers)} and exists (
        select from raw_data as job
        where job.source_slug = round.source_slug and status = 'pending' and not waits
        order by id + 0 offset 0)),
    level as materialized (
      select ceil(min((${count}::numeric + below) / sources)) as jobs from (
        select row_number() over () as sources,
          sum(jobs) over (rows unbounded preceding) as below
        from (select jobs from candidate_source limit ${unplanned(Math.min(count, MAX_SOURCES))}) as first) as step),
    chosen as materialized (
      select id, row_number() over () as turn from (
        select job.id from candidate_source as source
        cross join lateral (
          select id from raw_data as candidate
          where source_slug = source.source_slug and status = 'pending' and not waits
            and attempts < ${unplanned(aloneFrom)}
            and id <> all (${except}::bigint[])
            and not ${isProcessed(sql`candidate`)}
            and not ${isBehind(sql`candidate`)}
          order by id + 0
          limit case when ${unplanned(ofNewcomers)} then 1
            else greatest(1, (select jobs from level) - source.jobs) end
          for update skip locked) as job
        limit ${unplanned(count)}) as taken),
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
