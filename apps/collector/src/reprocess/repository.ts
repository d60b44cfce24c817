import { type Kysely, sql } from 'kysely';
import { type DescriberVersion, isOutdated as isOutdatedImage } from '../images/describe.ts';
import type { Payload } from '../ingest/payload.ts';
import { FIELD_NAMES } from '../listing/fields.ts';
import { onSameListing } from '../listing/listing.ts';
import { hasUnfinishedPayload } from '../queue/fence.ts';
import type { Job } from '../queue/job-types.ts';
import { costWith } from '../queue/transitions.ts';
import type { ModelUsage, Tables } from '../tables.ts';

/** Selection of the listings to reprocess. */
export type ListingSelection = {
  source?: string | undefined;
  listingId?: number | undefined;
  /** Selects only listings with a larger ID. */
  after?: number | undefined;
  /** Selects only listings without an extraction by this prompt and model. */
  outdated?: ExtractorVersion | undefined;
};

/** Version of the prompt, and the configured name of the model. */
export type ExtractorVersion = { promptVersion: string; requestedModel: string };

/** Kind of the enrichment that records which prompt and model found no listing in a payload. */
const REJECTION_KIND = 'refusal';

const toJson = ({ promptVersion, requestedModel }: ExtractorVersion) =>
  JSON.stringify({ prompt_version: promptVersion, requested_model: requestedModel });

/** Matches listings whose payload this prompt and model have neither extracted nor rejected (see `noteRejection`). */
const isOutdated = (extractor: ExtractorVersion) => sql<boolean>`(
  not coalesce(provenance.value @> ${toJson(extractor)}::jsonb, false)
  and not exists (
    select from listing_enrichments as rejection
    where rejection.listing_id = listing.id and rejection.kind = ${REJECTION_KIND}
      and rejection.value @> ${toJson(extractor)}::jsonb
      and rejection.value ->> 'content_hash' = raw.content_hash))`;

function selectListings(db: Kysely<Tables>, { source, listingId, after }: ListingSelection) {
  return db
    .selectFrom('property_listings as listing')
    .innerJoin('listing_payloads as current', onSameListing)
    .leftJoin('raw_data as raw', 'raw.id', 'current.raw_id')
    .$if(source !== undefined, (query) => query.where('listing.source_slug', '=', source ?? ''))
    .$if(listingId !== undefined, (query) => query.where('listing.id', '=', listingId ?? 0))
    .$if(after !== undefined, (query) => query.where('listing.id', '>', after ?? 0));
}

function selectFilteredListings(db: Kysely<Tables>, selection: ListingSelection) {
  const { outdated } = selection;
  return selectListings(db, selection)
    .leftJoin('listing_enrichments as provenance', (join) =>
      join
        .onRef('provenance.listing_id', '=', 'listing.id')
        .on('provenance.kind', '=', 'provenance'),
    )
    .where(outdated === undefined ? sql<boolean>`true` : isOutdated(outdated));
}

/** Returns the number of selected listings. */
export async function countSelected(
  db: Kysely<Tables>,
  selection: ListingSelection,
): Promise<number> {
  const { n } = await selectFilteredListings(db, selection)
    .select((eb) => eb.fn.countAll<number>().as('n'))
    .executeTakeFirstOrThrow();
  return n;
}

/** Listing and its last payload. The payload is null if it was removed. */
export type SelectedListing = Awaited<ReturnType<typeof listSelected>>[number];

/** Returns the first selected listings in ID order. */
export function listSelected(db: Kysely<Tables>, selection: ListingSelection, limit: number) {
  return (
    selectFilteredListings(db, selection)
      .select(['listing.id', 'current.raw_id'])
      .select(hasUnfinishedPayload(sql`listing`).as('is_awaited'))
      .select(FIELD_NAMES.map((name) => `listing.${name}` as const))
      // The ingest validated the payload.
      .select(sql<Payload | null>`raw.payload`.as('payload'))
      .orderBy('listing.id')
      .limit(limit)
      .execute()
  );
}

function selectWithImages(
  db: Kysely<Tables>,
  selection: ListingSelection,
  describer: DescriberVersion,
) {
  return selectListings(db, selection).where(
    sql<boolean>`exists (
      select from listing_images as shown join images using (sha256)
      where shown.listing_id = listing.id and ${isOutdatedImage(describer)})`,
  );
}

/** Returns the number of selected listings with outdated images. */
export async function countWithImages(
  db: Kysely<Tables>,
  selection: ListingSelection,
  describer: DescriberVersion,
): Promise<number> {
  const { n } = await selectWithImages(db, selection, describer)
    .select((eb) => eb.fn.countAll<number>().as('n'))
    .executeTakeFirstOrThrow();
  return n;
}

/**
 * Returns the first selected listings with outdated images, and the IDs of their payloads if these are still stored.
 */
export function listWithImages(
  db: Kysely<Tables>,
  selection: ListingSelection,
  describer: DescriberVersion,
  limit: number,
) {
  return selectWithImages(db, selection, describer)
    .select(['listing.id', 'raw.id as raw_id'])
    .orderBy('listing.id')
    .limit(limit)
    .execute();
}

/** Adds the cost of an extraction to the cost of its payload. */
export async function addExtractionCost(
  db: Kysely<Tables>,
  rawId: number,
  usage: ModelUsage,
): Promise<void> {
  await sql`
    update raw_data set model_usage = ${costWith(sql`${JSON.stringify(usage)}::jsonb`)}
    where id = ${rawId}`.execute(db);
}

/** Records that a prompt and model found no listing in a payload, so that a later run skips the same content. */
export async function noteRejection(
  db: Kysely<Tables>,
  { listingId, rawId }: { listingId: number; rawId: number },
  extractor: ExtractorVersion,
): Promise<void> {
  await sql`
    insert into listing_enrichments (listing_id, kind, value)
    select listing.id, ${REJECTION_KIND},
      ${toJson(extractor)}::jsonb || jsonb_build_object('content_hash', raw.content_hash)
    from property_listings as listing, raw_data as raw
    where listing.id = ${listingId} and raw.id = ${rawId}
    on conflict (listing_id, kind) do update set value = excluded.value, updated_at = now()
  `.execute(db);
}

/** Returns whether a job has left its listing unchanged since the last completed payload. */
export async function isComplete(db: Kysely<Tables>, job: Job): Promise<boolean> {
  // This lock waits for a write that the server may still be executing.
  await sql`select from raw_data where id = ${job.rawId} for no key update`.execute(db);
  const written = await db
    .selectFrom('listing_payloads')
    .select('raw_id')
    .where('source_slug', '=', job.sourceSlug)
    .where('external_id', '=', job.externalId)
    .where('raw_id', '=', job.rawId)
    .where('completed_hash', 'is', null)
    .executeTakeFirst();
  return written === undefined;
}
