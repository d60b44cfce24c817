import { type Kysely, sql } from 'kysely';
import { type DescriberVersion, isOutdated as isOutdatedImage } from '../images/describe.ts';
import type { Payload } from '../ingest/payload.ts';
import { FIELD_NAMES } from '../listing/fields.ts';
import { joinSameListing } from '../listing/listing.ts';
import { hasUnfinishedPayload } from '../queue/fence.ts';
import { sumModelUsage } from '../queue/transitions.ts';
import type { ModelUsage, Tables } from '../tables.ts';

/** Version of the prompt, and the configured name of the model. */
type ExtractorVersion = { promptVersion: string; requestedModel: string };

export type ListingSelection = {
  source?: string | undefined;
  listingId?: number | undefined;
  /** Selects only listings with a larger ID. */
  after?: number | undefined;
  /** Selects only listings whose payload this prompt and model have neither extracted nor rejected. */
  outdated?: ExtractorVersion | undefined;
  /** Selects only listings with images that lack both a description and a lasting error of this prompt and model. */
  outdatedImages?: DescriberVersion | undefined;
};

/** Kind of the enrichment that records a rejected payload. */
const REJECTION_KIND = 'refusal';

const serializeExtractor = ({ promptVersion, requestedModel }: ExtractorVersion) =>
  JSON.stringify({ prompt_version: promptVersion, requested_model: requestedModel });

/** Returns the condition that this prompt and model have neither extracted nor rejected the payload of a listing. */
const isListingOutdated = (extractor: ExtractorVersion) => sql<boolean>`not exists (
  select from listing_enrichments as result
  where result.listing_id = listing.id and result.value @> ${serializeExtractor(extractor)}::jsonb
    and (result.kind = 'provenance'
      or result.kind = ${REJECTION_KIND} and result.value ->> 'content_hash' = raw.content_hash))`;

const hasOutdatedImages = (describer: DescriberVersion) => sql<boolean>`exists (
  select from listing_images as listing_image join images using (sha256)
  where listing_image.listing_id = listing.id and ${isOutdatedImage(describer)})`;

function selectListings(db: Kysely<Tables>, selection: ListingSelection) {
  const { source, listingId, after, outdated, outdatedImages } = selection;
  let query = db
    .selectFrom('property_listings as listing')
    .innerJoin('listing_payloads as current', joinSameListing)
    .leftJoin('raw_data as raw', 'raw.id', 'current.raw_id');
  if (source !== undefined) query = query.where('listing.source_slug', '=', source);
  if (listingId !== undefined) query = query.where('listing.id', '=', listingId);
  if (after !== undefined) query = query.where('listing.id', '>', after);
  if (outdated !== undefined) query = query.where(isListingOutdated(outdated));
  if (outdatedImages !== undefined) query = query.where(hasOutdatedImages(outdatedImages));
  return query;
}

function selectListingKeys(db: Kysely<Tables>, selection: ListingSelection, limit: number) {
  return selectListings(db, selection)
    .select(['listing.id', 'current.raw_id'])
    .orderBy('listing.id')
    .limit(limit);
}

/** Returns the number of selected listings. */
export async function countListings(
  db: Kysely<Tables>,
  selection: ListingSelection,
): Promise<number> {
  const { n } = await selectListings(db, selection)
    .select((eb) => eb.fn.countAll<number>().as('n'))
    .executeTakeFirstOrThrow();
  return n;
}

/** Listing and its last payload. The payload is null if it was removed. */
export type SelectedListing = Awaited<ReturnType<typeof findListings>>[number];

/** Returns the IDs of the first selected listings and of their last payloads, in ID order. */
export function findListingKeys(db: Kysely<Tables>, selection: ListingSelection, limit: number) {
  return selectListingKeys(db, selection, limit).execute();
}

/** Returns the first selected listings in ID order. */
export function findListings(db: Kysely<Tables>, selection: ListingSelection, limit: number) {
  return (
    selectListingKeys(db, selection, limit)
      .select(hasUnfinishedPayload(sql`listing`).as('has_unfinished_payload'))
      .select(FIELD_NAMES.map((name) => `listing.${name}` as const))
      .select('current.corrections')
      // The ingest route validated the payload.
      .select(sql<Payload | null>`raw.payload`.as('payload'))
      .execute()
  );
}

/** Adds the model usage of an extraction to the total of its raw record. */
export async function addExtractionUsage(
  db: Kysely<Tables>,
  rawId: number,
  usage: ModelUsage,
): Promise<void> {
  await sql`
    update raw_data set model_usage = ${sumModelUsage(sql`${JSON.stringify(usage)}::jsonb`)}
    where id = ${rawId}`.execute(db);
}

/** Records that a prompt and model found no listing in a payload. Later runs with `outdated` skip the payload. */
export async function recordRejection(
  db: Kysely<Tables>,
  { listingId, rawId }: { listingId: number; rawId: number },
  extractor: ExtractorVersion,
): Promise<void> {
  await sql`
    insert into listing_enrichments (listing_id, kind, value)
    select listing.id, ${REJECTION_KIND},
      ${serializeExtractor(extractor)}::jsonb || jsonb_build_object('content_hash', raw.content_hash)
    from property_listings as listing, raw_data as raw
    where listing.id = ${listingId} and raw.id = ${rawId}
    on conflict (listing_id, kind) do update set value = excluded.value, updated_at = now()
  `.execute(db);
}
