import { prepared, hideFromPlanner } from '@oselya/db';
import { type Kysely, type RawBuilder, sql } from 'kysely';
import type { RawStatus, Tables } from '../tables.ts';
import { hasUnfinishedPayload, hasEarlierPendingPayload, hasJobInProgress } from './fence.ts';
import type { ClaimTerms, Job, ListingKey } from './job-types.ts';
import { createClaimTransition, createReprocessTransition } from './transitions.ts';

/** Maximum number of sources per claim. The next claim continues after the last source. */
const MAX_SOURCES = 16;

export type ClaimOptions = ClaimTerms & {
  count: number;
  /** Round-robin cursor: the source of the job that was claimed last. */
  lastSource?: string | undefined;
};

/** Returns the columns of a {@link Job}. */
export const selectJobColumns = (row: RawBuilder<unknown>) => sql`
  ${row}.id as "rawId", attempt, source_slug as "sourceSlug", external_id as "externalId",
  content_hash as "contentHash", request_id as "requestId"`;

/** Condition that a payload is pending, due, and not blocked by another payload of its listing. */
const isClaimable = sql`status = 'pending' and not waits and (retry_at is null or retry_at <= now())`;

/**
 * Claims the oldest pending jobs of the sources with the fewest jobs in progress across all processes. A payload waits
 * for every earlier payload of its listing. Contract 4, Queue; docs/adr/0020-fair-share.md.
 * @returns The jobs in claim order. More jobs may be pending even if fewer than `count` are returned.
 */
export async function claimJobs(
  db: Kysely<Tables>,
  { count, lastSource = '', ...terms }: ClaimOptions,
): Promise<Job[]> {
  const { rows } = await sql<Job>`${prepared}
    with recursive
    -- The next sources with a claimable payload, in alphabetical order.
    next_sources (source_slug, position, first_source) as (
      select next.source_slug, 1, next.source_slug from ${selectNextSource(hideFromPlanner(lastSource))}
      union all
      select next.source_slug, position + 1, first_source
      from next_sources cross join lateral ${selectNextSource(sql`next_sources.source_slug`)}
      where position < ${sql.lit(MAX_SOURCES)} and next.source_slug <> first_source),
    -- Each source gets at least one slot, because the payloads of the other sources may have to wait.
    source as materialized (
      select source_slug, position, job_count,
        greatest(1, ceil((${count}::numeric + sum(job_count) over ()) / count(*) over ()) - job_count) as share
      from next_sources cross join lateral (
        select count(*) as job_count from raw_data as job
        where job.source_slug = next_sources.source_slug and job.status = 'processing') as in_progress),
    chosen as materialized (
      select id, row_number() over (order by job_count + source_rank, position) as claim_rank
      from source cross join lateral (
        select id, row_number() over () as source_rank from (
          select id from raw_data as candidate
          where candidate.source_slug = source.source_slug and ${isClaimable}
            -- The column waits may be out of date, so check the listing itself.
            and not ${hasJobInProgress(sql`candidate`)} and not ${hasEarlierPendingPayload(sql`candidate`)}
          order by id + 0
          limit least(share, ${hideFromPlanner(count)})
          for update skip locked) as oldest) as candidate
      order by claim_rank
      limit ${hideFromPlanner(count)}),
    claimed as (
      update raw_data set ${createClaimTransition(terms)}
      where id = any (array(select id from chosen))
      returning id, attempt, source_slug, external_id, content_hash, request_id)
    select ${selectJobColumns(sql`claimed`)} from claimed join chosen using (id) order by claim_rank`.execute(
    db,
  );
  return rows;
}

const selectFirstSource = (condition: RawBuilder<unknown>) => sql`(
  select source_slug from raw_data where ${isClaimable} and ${condition} order by source_slug limit 1)`;

/** Returns a FROM item with the next source in alphabetical order, wrapping around to the first source. */
const selectNextSource = (after: RawBuilder<unknown>) => sql`(
  select source_slug from (
    select coalesce(${selectFirstSource(sql`source_slug > ${after}`)}, ${selectFirstSource(sql`true`)}) as source_slug
    offset 0) as candidate
  where source_slug is not null) as next`;

/** Job claimed for reprocessing, with the earlier status of its payload. */
export type ReprocessingJob = Job & { earlierStatus: RawStatus };

/**
 * Claims the latest payload of a listing for reprocessing, and resets its attempt count.
 * @param options.isImagesOnly Whether to require that every stage completed, because only the image stages run again.
 * @returns The job. Undefined if the listing has a newer or unfinished payload, or if the payload is locked or does not
 *   meet `isImagesOnly`.
 */
export async function claimForReprocessing(
  db: Kysely<Tables>,
  rawId: number,
  terms: ClaimTerms,
  { isImagesOnly = false }: { isImagesOnly?: boolean } = {},
): Promise<ReprocessingJob | undefined> {
  const { rows } = await sql<ReprocessingJob>`
    with chosen as materialized (
      select raw.id, raw.status from raw_data as raw
      join listing_payloads as current using (source_slug, external_id)
      where raw.id = ${rawId} and current.raw_id = raw.id
        and raw.status in ('completed', 'failed', 'invalid')
        and (not ${isImagesOnly}
          or (raw.status = 'completed' and current.completed_hash = raw.content_hash))
        and not ${hasUnfinishedPayload(sql`raw`)}
      for update of raw skip locked)
    update raw_data set ${createReprocessTransition(terms)}
    from chosen where raw_data.id = chosen.id
    returning ${selectJobColumns(sql`raw_data`)}, chosen.status as "earlierStatus"`.execute(db);
  return rows[0];
}

/**
 * Unblocks the first pending payload of each listing without a job in progress. Call this after the commit of ended
 * jobs and of new payloads. {@link unblockMissedPayloads} handles processes that were killed before the call.
 */
export async function unblockPayloads(
  db: Kysely<Tables>,
  listings: readonly ListingKey[],
): Promise<void> {
  if (listings.length === 0) return;
  const sources = listings.map(({ sourceSlug }) => sourceSlug);
  const externalIds = listings.map(({ externalId }) => externalId);
  await sql`${prepared}
    update raw_data set waits = false
    where id in (
      select id from raw_data
      where status = 'pending' and waits and id = any (array(
        select first.id
        from unnest(${sources}::text[], ${externalIds}::text[]) as listing (source_slug, external_id)
        cross join lateral (
          select id, waits from raw_data
          where source_slug = listing.source_slug and external_id = listing.external_id
            and status = 'pending'
          order by id + 0 limit 1) as first
        where first.waits and not ${hasJobInProgress(sql`listing`)}))
      order by id for update)`.execute(db);
}

/** Maximum number of listings per scan, which takes about 30 ms. */
const MAX_SCANNED_LISTINGS = 5000;

/**
 * Unblocks payloads that a killed process left blocked. Scans a limited number of listings after the cursor.
 * @returns The cursor for the next call, or undefined after the last listing.
 */
export async function unblockMissedPayloads(
  db: Kysely<Tables>,
  after: ListingKey = { sourceSlug: '', externalId: '' },
): Promise<ListingKey | undefined> {
  const { rows } = await sql<ListingKey>`
    select distinct source_slug as "sourceSlug", external_id as "externalId" from raw_data
    where status = 'pending' and waits
      and (source_slug, external_id) > (${after.sourceSlug}, ${after.externalId})
    order by source_slug, external_id limit ${MAX_SCANNED_LISTINGS}`.execute(db);
  await unblockPayloads(db, rows);
  return rows.length < MAX_SCANNED_LISTINGS ? undefined : rows.at(-1);
}
