import { prepared, hideFromPlanner } from '@oselya/db';
import { type Kysely, type RawBuilder, sql } from 'kysely';
import type { RawStatus, Tables } from '../tables.ts';
import { hasUnfinishedPayload, hasEarlierPendingPayload, hasJobInProgress } from './fence.ts';
import type { Job, ListingKey } from './job-types.ts';
import { type Claimant, createClaimTransition, createReprocessTransition } from './transitions.ts';

/** Maximum number of sources per claim. The next claim continues after the last source. */
const MAX_SOURCES = 16;

export type ClaimOptions = Claimant & {
  count: number;
  /** Round-robin cursor: the source of the job that was claimed last. */
  lastSource?: string | undefined;
};

/** Returns the columns of a {@link Job}. */
export const selectJobColumns = (row: RawBuilder<unknown>) => sql`
  ${row}.id as "rawId", attempt, source_slug as "sourceSlug", external_id as "externalId",
  content_hash as "contentHash", request_id as "requestId"`;

/** Condition that a payload is pending, due, and does not wait for another payload of its listing. */
const isClaimable = sql`status = 'pending' and not waits and (retry_at is null or retry_at <= now())`;

/**
 * Claims pending jobs for the sources with the fewest jobs in progress over all processes, the oldest jobs of each
 * source first. A payload waits for every earlier payload of its listing. Contract 4, Queue;
 * docs/adr/0020-fair-share.md.
 * @returns The jobs in the order of the claim. More jobs may be pending even if it returns fewer than `count`.
 */
export async function claimJobs(
  db: Kysely<Tables>,
  { count, lastSource = '', ...claimant }: ClaimOptions,
): Promise<Job[]> {
  const { rows } = await sql<Job>`${prepared}
    with recursive
    -- The next sources with a claimable payload, in alphabetical order.
    round (source_slug, nth, first) as (
      select next.source_slug, 1, next.source_slug from ${nextSource(hideFromPlanner(lastSource))}
      union all
      select next.source_slug, nth + 1, first from round cross join lateral ${nextSource(sql`round.source_slug`)}
      where nth < ${sql.lit(MAX_SOURCES)} and next.source_slug <> first),
    -- Each source gets at least one slot, because the payloads of the other sources may have to wait.
    source as materialized (
      select source_slug, nth, jobs,
        greatest(1, ceil((${count}::numeric + sum(jobs) over ()) / count(*) over ()) - jobs) as share
      from round cross join lateral (
        select count(*) as jobs from raw_data as job
        where job.source_slug = round.source_slug and job.status = 'processing') as progress),
    chosen as materialized (
      select id, row_number() over (order by jobs + place, nth) as place
      from source cross join lateral (
        select id, row_number() over () as place from (
          select id from raw_data as candidate
          where candidate.source_slug = source.source_slug and ${isClaimable}
            -- The index excludes most payloads that must wait.
            and not ${hasJobInProgress(sql`candidate`)} and not ${hasEarlierPendingPayload(sql`candidate`)}
          order by id + 0
          limit least(share, ${hideFromPlanner(count)})
          for update skip locked) as oldest) as job
      order by place
      limit ${hideFromPlanner(count)}),
    claimed as (
      update raw_data set ${createClaimTransition(claimant)}
      where id = any (array(select id from chosen))
      returning id, attempt, source_slug, external_id, content_hash, request_id)
    select ${selectJobColumns(sql`claimed`)} from claimed join chosen using (id) order by place`.execute(
    db,
  );
  return rows;
}

const selectFirstSource = (condition: RawBuilder<unknown>) => sql`(
  select source_slug from raw_data where ${isClaimable} and ${condition} order by source_slug limit 1)`;

/** Returns a FROM item with the next source in alphabetical order, or the first source after the last one. */
const nextSource = (after: RawBuilder<unknown>) => sql`(
  select source_slug from (
    select coalesce(${selectFirstSource(sql`source_slug > ${after}`)}, ${selectFirstSource(sql`true`)}) as source_slug
    offset 0) as found
  where source_slug is not null) as next`;

/** Payload claimed for reprocessing. */
export type ReprocessedJob = Job & { earlierStatus: RawStatus };

/**
 * Claims the latest payload of a listing for reprocessing, with all its attempts.
 * @param options.onlyImages Claims only a payload that went through every stage.
 * @returns Undefined if the listing has a newer or unfinished payload.
 */
export async function claimForReprocessing(
  db: Kysely<Tables>,
  rawId: number,
  claimant: Claimant,
  { onlyImages = false }: { onlyImages?: boolean } = {},
): Promise<ReprocessedJob | undefined> {
  const { rows } = await sql<ReprocessedJob>`
    with chosen as materialized (
      select raw.id, raw.status from raw_data as raw
      join listing_payloads as current using (source_slug, external_id)
      where raw.id = ${rawId} and current.raw_id = raw.id
        and raw.status in ('completed', 'failed', 'invalid')
        and (not ${onlyImages}
          or (raw.status = 'completed' and current.completed_hash = raw.content_hash))
        and not ${hasUnfinishedPayload(sql`raw`)}
      for update of raw skip locked)
    update raw_data set ${createReprocessTransition(claimant)}
    from chosen where raw_data.id = chosen.id
    returning ${selectJobColumns(sql`raw_data`)}, chosen.status as "earlierStatus"`.execute(db);
  return rows[0];
}

/**
 * Clears `waits` of the first pending payload of each listing without a job in progress. Call it after the commit
 * of finished jobs and of new payloads. {@link releaseMissedListings} handles processes that were killed before the
 * call.
 */
export async function releaseListings(
  db: Kysely<Tables>,
  listings: readonly ListingKey[],
): Promise<void> {
  if (listings.length === 0) return;
  const sources = listings.map(({ sourceSlug }) => sourceSlug);
  const ids = listings.map(({ externalId }) => externalId);
  await sql`${prepared}
    update raw_data set waits = false
    where id in (
      select id from raw_data
      where status = 'pending' and waits and id = any (array(
        select first.id
        from unnest(${sources}::text[], ${ids}::text[]) as listing (source_slug, external_id)
        cross join lateral (
          select id, waits from raw_data
          where source_slug = listing.source_slug and external_id = listing.external_id
            and status = 'pending'
          order by id + 0 limit 1) as first
        where first.waits and not ${hasJobInProgress(sql`listing`)}))
      order by id for update)`.execute(db);
}

/** Maximum number of listings per search. The search takes about 30 ms. */
const MAX_SEARCHED_LISTINGS = 5000;

/**
 * Releases payloads whose release a killed process missed, for a bounded number of listings after a cursor.
 * @returns The cursor for the next call. It is undefined at the end.
 */
export async function releaseMissedListings(
  db: Kysely<Tables>,
  after: ListingKey = { sourceSlug: '', externalId: '' },
): Promise<ListingKey | undefined> {
  const { rows } = await sql<ListingKey>`
    select distinct source_slug as "sourceSlug", external_id as "externalId" from raw_data
    where status = 'pending' and waits
      and (source_slug, external_id) > (${after.sourceSlug}, ${after.externalId})
    order by source_slug, external_id limit ${MAX_SEARCHED_LISTINGS}`.execute(db);
  await releaseListings(db, rows);
  return rows.length < MAX_SEARCHED_LISTINGS ? undefined : rows.at(-1);
}
