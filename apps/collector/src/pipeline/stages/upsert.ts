import { sql } from 'kysely';
import { heldClaim } from '../../queue/fence.ts';
import { LeaseLostError } from '../../queue/job.ts';
import { normaliseText } from '../../text/normalise.ts';
import { product } from '../context.ts';
import { listingState } from '../listing-state.ts';
import { done, superseded } from '../outcome.ts';
import type { StageRun } from '../stage.ts';
import { searchText } from '../search-text.ts';

/**
 * Creates or updates the listing, and says where its facts come from, unless it was made from a newer
 * payload already. With a new payload it comes back from the archive; one that is processed again is no
 * sign of it. It is complete again only when every stage has been through.
 */
export const upsert: StageRun = async (context, { db }) => {
  const { job, products } = context;
  const state = listingState(product(context, 'payload'), product(context, 'facts'));
  const row = {
    source_slug: job.sourceSlug,
    external_id: job.externalId,
    ...state,
    city_key: state.city === null ? null : normaliseText(state.city),
    search_text: searchText(state),
  };
  const columns = Object.keys(row);
  const { rows } = await sql<{ held: boolean; id: number | null }>`
    with claim as materialized (${heldClaim(job)}),
    before as materialized (
      select raw_id from listing_payloads
      where source_slug = ${job.sourceSlug} and external_id = ${job.externalId}),
    current as (
      insert into listing_payloads (source_slug, external_id, raw_id)
      select ${job.sourceSlug}, ${job.externalId}, ${job.rawId}::bigint from claim
      on conflict (source_slug, external_id)
        do update set raw_id = excluded.raw_id, completed_hash = null
        where listing_payloads.raw_id <= excluded.raw_id
      returning raw_id),
    stored as (
      insert into property_listings (${sql.join(columns.map((column) => sql.ref(column)))})
      select ${sql.join(columns.map((column) => sql.ref(`listing.${column}`)))}
      from current, jsonb_populate_record(null::property_listings, ${JSON.stringify(row)}) as listing
      on conflict (source_slug, external_id) do update set
        ${sql.join(columns.map((column) => sql`${sql.ref(column)} = ${sql.ref(`excluded.${column}`)}`))},
        archived_at = case when (select raw_id from before) = ${job.rawId}
          then property_listings.archived_at end,
        updated_at = now()
      returning id),
    traced as (
      insert into listing_enrichments (listing_id, kind, value)
      select id, 'provenance', ${JSON.stringify(product(context, 'provenance'))}::jsonb from stored
      on conflict (listing_id, kind) do update set value = excluded.value, updated_at = now())
    select exists (select from claim) as held, (select id from stored) as id`.execute(db);
  const stored = rows[0];
  if (stored === undefined || !stored.held) throw new LeaseLostError(job);
  if (stored.id === null) return superseded;
  products.listingId = stored.id;
  return done;
};
