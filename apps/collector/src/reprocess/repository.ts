import { type Kysely, sql } from 'kysely';
import { type Asked, isOutdated as isOutdatedImage } from '../images/describe.ts';
import type { Payload } from '../ingest/payload.ts';
import { FIELD_NAMES } from '../listing/fields.ts';
import { onSameListing } from '../listing/listing.ts';
import { hasUnfinishedPayload } from '../queue/fence.ts';
import type { Job } from '../queue/job-types.ts';
import { costWith } from '../queue/transitions.ts';
import type { ModelUsage, Tables } from '../tables.ts';

/** The listings to process again. */
export type ListingSelection = {
  source?: string | undefined;
  listingId?: number | undefined;
  /** Only listings with a larger id: they are read in the order of their ids. */
  after?: number | undefined;
  /** Only listings that this prompt and model have not read. */
  outdated?: ExtractorVersion | undefined;
};

/** A version of the prompt, and a model by its configured name. */
export type ExtractorVersion = { promptVersion: string; requestedModel: string };

/** The kind of an enrichment that names the prompt and model that found no listing in a payload. */
const REJECTION = 'refusal';

const toJson = ({ promptVersion, requestedModel }: ExtractorVersion) =>
  JSON.stringify({ prompt_version: promptVersion, requested_model: requestedModel });

/** Neither read by this prompt and model, nor rejected by them with the same content (see `noteRejection`). */
const isOutdated = (extractor: ExtractorVersion) => sql<boolean>`(
  not coalesce(provenance.value @> ${toJson(extractor)}::jsonb, false)
  and not exists (
    select from listing_enrichments as rejection
    where rejection.listing_id = listing.id and rejection.kind = ${REJECTION}
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

function selectFilteredListings(db: Kysely<Tables>, choice: ListingSelection) {
  const { outdated } = choice;
  return selectListings(db, choice)
    .leftJoin('listing_enrichments as provenance', (join) =>
      join
        .onRef('provenance.listing_id', '=', 'listing.id')
        .on('provenance.kind', '=', 'provenance'),
    )
    .where(outdated === undefined ? sql<boolean>`true` : isOutdated(outdated));
}

/** Returns the number of chosen listings. */
export async function countSelected(db: Kysely<Tables>, choice: ListingSelection): Promise<number> {
  const { n } = await selectFilteredListings(db, choice)
    .select((eb) => eb.fn.countAll<number>().as('n'))
    .executeTakeFirstOrThrow();
  return n;
}

/** A listing and the payload that it was last made from; null once that was removed. */
export type SelectedListing = Awaited<ReturnType<typeof listSelected>>[number];

/** Returns the first chosen listings in the order of their ids. */
export function listSelected(db: Kysely<Tables>, choice: ListingSelection, limit: number) {
  return (
    selectFilteredListings(db, choice)
      .select(['listing.id', 'current.raw_id'])
      .select(hasUnfinishedPayload(sql`listing`).as('is_awaited'))
      .select(FIELD_NAMES.map((name) => `listing.${name}` as const))
      // The ingest has checked it.
      .select(sql<Payload | null>`raw.payload`.as('payload'))
      .orderBy('listing.id')
      .limit(limit)
      .execute()
  );
}

function selectWithImages(db: Kysely<Tables>, choice: ListingSelection, describer: Asked) {
  return selectListings(db, choice).where(
    sql<boolean>`exists (
      select from listing_images as shown join images using (sha256)
      where shown.listing_id = listing.id and ${isOutdatedImage(describer)})`,
  );
}

/** Returns the number of chosen listings with outdated images. */
export async function countWithImages(
  db: Kysely<Tables>,
  choice: ListingSelection,
  describer: Asked,
): Promise<number> {
  const { n } = await selectWithImages(db, choice, describer)
    .select((eb) => eb.fn.countAll<number>().as('n'))
    .executeTakeFirstOrThrow();
  return n;
}

/** Returns the first chosen listings with outdated images, and their payloads where these are kept. */
export function listWithImages(
  db: Kysely<Tables>,
  choice: ListingSelection,
  describer: Asked,
  limit: number,
) {
  return selectWithImages(db, choice, describer)
    .select(['listing.id', 'raw.id as raw_id'])
    .orderBy('listing.id')
    .limit(limit)
    .execute();
}

/** Adds the cost of a reading to the cost of its payload. */
export async function addExtractionCost(
  db: Kysely<Tables>,
  rawId: number,
  usage: ModelUsage,
): Promise<void> {
  await sql`
    update raw_data set model_usage = ${costWith(sql`${JSON.stringify(usage)}::jsonb`)}
    where id = ${rawId}`.execute(db);
}

/** Notes that a prompt and model found no listing in the content of a payload, which may be sent every day. */
export async function noteRejection(
  db: Kysely<Tables>,
  { listingId, rawId }: { listingId: number; rawId: number },
  extractor: ExtractorVersion,
): Promise<void> {
  await sql`
    insert into listing_enrichments (listing_id, kind, value)
    select listing.id, ${REJECTION},
      ${toJson(extractor)}::jsonb || jsonb_build_object('content_hash', raw.content_hash)
    from property_listings as listing, raw_data as raw
    where listing.id = ${listingId} and raw.id = ${rawId}
    on conflict (listing_id, kind) do update set value = excluded.value, updated_at = now()
  `.execute(db);
}

/** Tells whether the listing of a job is as the last completed payload left it: the job has not written it. */
export async function isComplete(db: Kysely<Tables>, job: Job): Promise<boolean> {
  // Waits for a write that the server still executes: it holds the record.
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
