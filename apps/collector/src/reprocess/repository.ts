import { type Kysely, sql } from 'kysely';
import type { ModelUsage, Tables } from '../tables.ts';
import type { EmbeddingState } from '../embeddings/text.ts';
import type { Payload } from '../ingest/payload.ts';
import { FIELD_NAMES } from '../listing/fields.ts';
import { type Asked, isOutdated as isOutdatedImage } from '../images/describe.ts';
import { ofListing } from '../listing/listing.ts';
import { isAwaited } from '../queue/fence.ts';
import type { Job } from '../queue/job.ts';
import { costWith } from '../queue/transitions.ts';

/** Which listings to process again. */
export type Choice = {
  source?: string | undefined;
  listingId?: number | undefined;
  /** Only listings with a larger id: they are read in the order of their ids. */
  after?: number | undefined;
  /** Only those that this prompt and model have not read. */
  outdated?: ReadBy | undefined;
};

/** What reads payloads: a version of the prompt, and a model by the name by which it is asked for. */
export type ReadBy = { promptVersion: string; requestedModel: string };

/** The kind of an enrichment that says who found no listing in a payload, and in which. */
const REFUSAL = 'refusal';

const columnsOf = ({ promptVersion, requestedModel }: ReadBy) =>
  JSON.stringify({ prompt_version: promptVersion, requested_model: requestedModel });

/**
 * Whether somebody else has read a listing's payload, or its provenance is not known. A listing also stays
 * what another has read where this one has found no listing in the payload (see `noteRefusal`): it need not
 * be asked again.
 */
const isOutdated = (current: ReadBy) => sql<boolean>`(
  not coalesce(provenance.value @> ${columnsOf(current)}::jsonb, false)
  and not exists (
    select from listing_enrichments as refusal
    where refusal.listing_id = listing.id and refusal.kind = ${REFUSAL}
      and refusal.value @> ${columnsOf(current)}::jsonb
      and refusal.value ->> 'content_hash' = raw.content_hash))`;

function selectListings(db: Kysely<Tables>, { source, listingId, after }: Choice) {
  return db
    .selectFrom('property_listings as listing')
    .innerJoin('listing_payloads as current', ofListing)
    .leftJoin('raw_data as raw', 'raw.id', 'current.raw_id')
    .$if(source !== undefined, (query) => query.where('listing.source_slug', '=', source ?? ''))
    .$if(listingId !== undefined, (query) => query.where('listing.id', '=', listingId ?? 0))
    .$if(after !== undefined, (query) => query.where('listing.id', '>', after ?? 0));
}

function select(db: Kysely<Tables>, choice: Choice) {
  const { outdated } = choice;
  return selectListings(db, choice)
    .leftJoin('listing_enrichments as provenance', (join) =>
      join
        .onRef('provenance.listing_id', '=', 'listing.id')
        .on('provenance.kind', '=', 'provenance'),
    )
    .where(outdated === undefined ? sql<boolean>`true` : isOutdated(outdated));
}

/** How many listings a choice is. */
export async function countChosen(db: Kysely<Tables>, choice: Choice): Promise<number> {
  const { n } = await select(db, choice)
    .select((eb) => eb.fn.countAll<number>().as('n'))
    .executeTakeFirstOrThrow();
  return n;
}

/** A listing as it stands, and the payload that it was made from last; null once that was cleaned up. */
export type Chosen = Awaited<ReturnType<typeof listChosen>>[number];

/** The first of the chosen listings, in the order of their ids. */
export function listChosen(db: Kysely<Tables>, choice: Choice, limit: number) {
  return (
    select(db, choice)
      .select(['listing.id', 'current.raw_id'])
      .select(isAwaited(sql`listing`).as('is_awaited'))
      .select(FIELD_NAMES.map((name) => `listing.${name}` as const))
      // The ingest has checked it.
      .select(sql<Payload | null>`raw.payload`.as('payload'))
      .orderBy('listing.id')
      .limit(limit)
      .execute()
  );
}

/** A listing with pictures that are outdated, and the payload that it was made from last, if that is kept. */
export type Pictured = Awaited<ReturnType<typeof listPictured>>[number];

function selectPictured(db: Kysely<Tables>, choice: Choice, asked: Asked) {
  return selectListings(db, choice).where(
    sql<boolean>`exists (
      select from listing_images as shown join images using (sha256)
      where shown.listing_id = listing.id and ${isOutdatedImage(asked)})`,
  );
}

/** How many listings of a choice have pictures that are outdated. */
export async function countPictured(
  db: Kysely<Tables>,
  choice: Choice,
  asked: Asked,
): Promise<number> {
  const { n } = await selectPictured(db, choice, asked)
    .select((eb) => eb.fn.countAll<number>().as('n'))
    .executeTakeFirstOrThrow();
  return n;
}

/** The first of them, in the order of their ids. */
export function listPictured(db: Kysely<Tables>, choice: Choice, asked: Asked, limit: number) {
  return selectPictured(db, choice, asked)
    .select(['listing.id', 'raw.id as raw_id'])
    .orderBy('listing.id')
    .limit(limit)
    .execute();
}

/** A listing's payload, and of what its embedding is; undefined where it is gone or another one is the last. */
export function findWritten(
  db: Kysely<Tables>,
  { listingId, rawId }: { listingId: number; rawId: number },
): Promise<(EmbeddingState & { payload: Payload }) | undefined> {
  return (
    selectListings(db, { listingId })
      .select(['listing.embedding_model', 'listing.embedding_text_hash'])
      .select(sql<boolean>`listing.embedding is not null`.as('is_embedded'))
      // The ingest has checked it.
      .select(sql<Payload>`raw.payload`.as('payload'))
      .where('raw.id', '=', rawId)
      .executeTakeFirst()
  );
}

/** Adds what a reading cost to what the payload has cost so far. */
export async function addReadingCost(
  db: Kysely<Tables>,
  rawId: number,
  usage: ModelUsage,
): Promise<void> {
  await sql`
    update raw_data set model_usage = ${costWith(sql`${JSON.stringify(usage)}::jsonb`)}
    where id = ${rawId}`.execute(db);
}

/**
 * Notes that no listing was found in a listing's payload. That holds for whatever has the same content: the
 * same payload may come every day.
 */
export async function noteRefusal(
  db: Kysely<Tables>,
  { listingId, rawId }: { listingId: number; rawId: number },
  current: ReadBy,
): Promise<void> {
  await sql`
    insert into listing_enrichments (listing_id, kind, value)
    select listing.id, ${REFUSAL},
      ${columnsOf(current)}::jsonb || jsonb_build_object('content_hash', raw.content_hash)
    from property_listings as listing, raw_data as raw
    where listing.id = ${listingId} and raw.id = ${rawId}
    on conflict (listing_id, kind) do update set value = excluded.value, updated_at = now()
  `.execute(db);
}

/** Whether the listing of a job still is what went through every stage: not once the job has written it. */
export async function isComplete(db: Kysely<Tables>, job: Job): Promise<boolean> {
  // A write that the server still carries out holds the record, and is waited for.
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
