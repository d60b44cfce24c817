import { LeaseLostError, prepared } from '@oselya/db';
import { type Kysely, sql } from 'kysely';
import type { Tables } from '../../tables.ts';
import type { Provenance } from '../../listing/provenance.ts';
import { selectHeldClaim } from '../../queue/fence.ts';
import type { Job } from '../../queue/job-types.ts';
import { getPlaceKeys, type PlaceColumns } from '../../places/listing-place.ts';
import { requireOutput, type StageRun } from '../context.ts';
import { type ListingState, buildListingState, buildSearchText } from '../listing-state.ts';
import { DONE_RESULT, SUPERSEDED_RESULT } from '../outcome.ts';

/** Columns that follow from the state of a listing. */
type DerivedColumns = PlaceColumns & ReturnType<typeof getPlaceKeys> & { search_text: string };

/** Creates or updates the listing and its provenance, unless a newer payload has updated the listing. */
export const upsert: StageRun = async (context, { db }) => {
  const state = buildListingState(
    requireOutput(context, 'payload'),
    requireOutput(context, 'facts'),
  );
  const place = requireOutput(context, 'place');
  const row = {
    ...state,
    ...place,
    ...getPlaceKeys(state),
    search_text: buildSearchText(state, place.place_text),
  };
  const provenance = requireOutput(context, 'provenance');
  const listingId = await upsertListing(db, context.job, row, provenance);
  if (listingId !== undefined) {
    context.outputs.listingId = listingId;
    return DONE_RESULT;
  }
  const newerListingId = await findListingId(db, context.job);
  if (newerListingId !== undefined) context.outputs.listingId = newerListingId;
  return SUPERSEDED_RESULT;
};

/**
 * Creates or updates the listing of a payload. A new payload restores an archived listing;
 * reprocessing does not, and never writes an unchanged row (docs/adr/0012-payload-state.md).
 * @returns The ID of the listing, or undefined if a newer payload has updated the listing.
 * @throws LeaseLostError
 */
async function upsertListing(
  db: Kysely<Tables>,
  job: Job,
  row: ListingState & DerivedColumns,
  provenance: Provenance,
): Promise<number | undefined> {
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
      -- The trigger of migration 0020 reads this setting at the end of the statement.
      select set_config('oselya.payload_again',
        exists (select from previous where raw_id = ${job.rawId})::text, true) as value),
    current as (
      insert into listing_payloads (source_slug, external_id, raw_id)
      select ${job.sourceSlug}, ${job.externalId}, ${job.rawId}::bigint from claim
      on conflict (source_slug, external_id)
        do update set raw_id = excluded.raw_id, completed_hash = null
        where listing_payloads.raw_id <= excluded.raw_id
      returning raw_id),
    stored as (
      insert into property_listings (${sql.join(columns.map((column) => sql.ref(column)))})
      select ${prefixColumns('listing')}
      from current,
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

async function findListingId(
  db: Kysely<Tables>,
  { sourceSlug, externalId }: Job,
): Promise<number | undefined> {
  const row = await db
    .selectFrom('property_listings')
    .select('id')
    .where('source_slug', '=', sourceSlug)
    .where('external_id', '=', externalId)
    .executeTakeFirst();
  return row?.id;
}
