import { LeaseLostError, prepared } from '@oselya/db';
import { type Kysely, sql } from 'kysely';
import type { Tables } from '../../tables.ts';
import { joinSameListing } from '../../listing/listing.ts';
import { selectHeldClaim } from '../../queue/fence.ts';
import type { Job } from '../../queue/job-types.ts';
import { type JobContext, requireOutput, type StageRun } from '../context.ts';
import { buildListingRow, buildListingState } from '../listing-state.ts';
import { formatStems } from '../../search/listing-stems.ts';
import { DONE_RESULT, SUPERSEDED_RESULT } from '../outcome.ts';
import { normalize } from './validate-and-normalize.ts';

/** Maximum number of times that corrections made in the meantime are read and applied. */
const MAX_MERGES = 3;

/**
 * Creates or updates the listing, its provenance and its corrections, unless a newer payload has updated the listing.
 * Merges again if a person has corrected the listing in the meantime.
 */
export const upsert: StageRun = async (context, deps, signal) => {
  const { db } = deps;
  const { job, outputs } = context;
  for (let merges = 1; ; merges += 1) {
    const listingId = await upsertListing(db, context);
    if (listingId !== undefined) {
      outputs.listingId = listingId;
      return DONE_RESULT;
    }
    const current = await findCurrent(db, job);
    if (current !== undefined && current.raw_id <= job.rawId && merges < MAX_MERGES) {
      outputs.storedCorrections = current.corrections ?? {};
      await normalize(context, deps, signal);
      continue;
    }
    if (current !== undefined) outputs.listingId = current.id;
    return SUPERSEDED_RESULT;
  }
};

/**
 * Creates or updates the listing of a payload. A new payload restores an archived listing;
 * reprocessing does not, and never writes an unchanged row (docs/adr/0012-payload-state.md).
 * @returns The ID of the listing, or undefined if a newer payload has updated the listing, or if its corrections have
 *   changed.
 * @throws LeaseLostError
 */
async function upsertListing(db: Kysely<Tables>, context: JobContext): Promise<number | undefined> {
  const { job } = context;
  const state = buildListingState(
    requireOutput(context, 'payload'),
    requireOutput(context, 'facts'),
  );
  const row = buildListingRow(state, requireOutput(context, 'place'));
  const provenance = requireOutput(context, 'provenance');
  const storedCorrections = JSON.stringify(requireOutput(context, 'storedCorrections'));
  const corrections = JSON.stringify(requireOutput(context, 'corrections'));
  const values = { source_slug: job.sourceSlug, external_id: job.externalId, ...row };
  const columns = Object.keys(values);
  const prefixColumns = (table: string) =>
    sql.join(columns.map((column) => sql.ref(`${table}.${column}`)));
  const { rows } = await sql<{ isHeld: boolean; id: number | null }>`${prepared}
    with claim as materialized (${selectHeldClaim(job)}),
    previous as materialized (
      select raw_id from listing_payloads
      where source_slug = ${job.sourceSlug} and external_id = ${job.externalId}),
    reprocessing as materialized (
      -- The triggers of migrations 0020 and 0038 read these settings at the end of the statement.
      select set_config('oselya.stems', ${formatStems(row)}, true), set_config('oselya.payload_again',
        exists (select from previous where raw_id = ${job.rawId})::text, true) as value),
    current as (
      insert into listing_payloads (source_slug, external_id, raw_id, corrections)
      select ${job.sourceSlug}, ${job.externalId}, ${job.rawId}::bigint,
        nullif(${corrections}::jsonb, '{}') from claim
      on conflict (source_slug, external_id)
        do update set raw_id = excluded.raw_id, completed_hash = null,
          corrections = excluded.corrections
        where listing_payloads.raw_id <= excluded.raw_id
          and coalesce(listing_payloads.corrections, '{}') = ${storedCorrections}::jsonb
      returning raw_id),
    stored as (
      insert into property_listings (${sql.join(columns.map((column) => sql.ref(column)))})
      select ${prefixColumns('listing')}
      from current, reprocessing,
        jsonb_populate_record(null::property_listings, ${JSON.stringify(values)}) as listing
      on conflict (source_slug, external_id) do update set
        ${sql.join(columns.map((column) => sql`${sql.ref(column)} = ${sql.ref(`excluded.${column}`)}`))},
        archived_at = case when (select value from reprocessing)::boolean
          then property_listings.archived_at end,
        updated_at = now()
      where not (select value from reprocessing)::boolean
        or (${prefixColumns('property_listings')})
          is distinct from (${prefixColumns('excluded')})
      returning id),
    listing_id as (
      select id from stored
      union
      select listing.id from current, property_listings as listing
      where listing.source_slug = ${job.sourceSlug} and listing.external_id = ${job.externalId}),
    provenance_write as (
      insert into listing_enrichments (listing_id, kind, value)
      select id, 'provenance', ${JSON.stringify(provenance)}::jsonb from listing_id
      on conflict (listing_id, kind) do update set value = excluded.value, updated_at = now())
    select exists (select from claim) as "isHeld", (select id from listing_id) as id`.execute(db);
  if (rows[0]?.isHeld !== true) throw new LeaseLostError();
  return rows[0].id ?? undefined;
}

/** Returns the listing of a job, the payload that it reflects, and its corrections. */
function findCurrent(db: Kysely<Tables>, { sourceSlug, externalId }: Job) {
  return db
    .selectFrom('property_listings as listing')
    .innerJoin('listing_payloads as current', joinSameListing)
    .select(['listing.id', 'current.raw_id', 'current.corrections'])
    .where('listing.source_slug', '=', sourceSlug)
    .where('listing.external_id', '=', externalId)
    .executeTakeFirst();
}
