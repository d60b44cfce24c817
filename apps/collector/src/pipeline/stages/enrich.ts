import { type Kysely, sql } from 'kysely';
import type { Tables } from '../../database/tables.ts';
import { heldListing } from '../../queue/fence.ts';
import { LeaseLostError } from '../../queue/job.ts';
import { product } from '../context.ts';
import type { Facts } from '../facts.ts';
import { done, superseded } from '../outcome.ts';
import { pricePerArea } from '../price-per-area.ts';
import type { StageRun } from '../stage.ts';

/** The enrichments that this stage owns: one that no longer holds is removed. */
const KINDS = ['price_per_m2', 'images'] as const;

type Enrichments = Partial<Record<(typeof KINDS)[number], Record<string, unknown>>>;

/**
 * Works out what follows from the listing's facts and pictures, without asking the model again. Where only
 * pictures were looked after, what follows from the facts stays.
 */
export const enrich: StageRun = async (context, { db }) => {
  const { job } = context;
  const listingId = product(context, 'listingId');
  const { onlyPictures = false } = context.products;
  const kinds = onlyPictures ? (['images'] as const) : KINDS;
  const enrichments: Enrichments = {
    ...(onlyPictures ? {} : priceOfArea(product(context, 'facts'))),
    ...(await describedImages(db, listingId)),
  };
  const { rows } = await sql<{ is_current: boolean }>`
    with claim as materialized (${heldListing(job)}),
    removed as (
      delete from listing_enrichments using claim
      where claim.is_current and listing_id = ${listingId} and kind = any(${[...kinds]})
        and not (${Object.keys(enrichments)}::text[] @> array[kind])),
    written as (
      insert into listing_enrichments (listing_id, kind, value)
      select ${listingId}::bigint, enrichment.key, enrichment.value
      from claim, jsonb_each(${JSON.stringify(enrichments)}::jsonb) as enrichment
      where claim.is_current
      on conflict (listing_id, kind) do update set value = excluded.value, updated_at = now())
    select is_current from claim`.execute(db);
  if (rows[0] === undefined) throw new LeaseLostError(job);
  return rows[0].is_current ? done : superseded;
};

function priceOfArea(facts: Facts): Enrichments {
  const value = pricePerArea(facts);
  return value === undefined ? {} : { price_per_m2: { value, currency: facts.currency ?? null } };
}

async function describedImages(db: Kysely<Tables>, listingId: number): Promise<Enrichments> {
  const rows = await db
    .selectFrom('listing_images')
    .leftJoin('images', 'images.sha256', 'listing_images.sha256')
    .select(['listing_images.sha256', 'images.room_type'])
    .where('listing_id', '=', listingId)
    .execute();
  if (rows.length === 0) return {};
  const roomTypes: Record<string, number> = {};
  for (const { room_type: type } of rows) {
    if (type !== null) roomTypes[type] = (roomTypes[type] ?? 0) + 1;
  }
  const stored = rows.filter((row) => row.sha256 !== null).length;
  return { images: { stored, failed: rows.length - stored, room_types: roomTypes } };
}
