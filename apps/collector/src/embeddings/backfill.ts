import { retryConflicts, formatVector } from '@oselya/db';
import { MAX_TEXTS_PER_REQUEST, type ModelClient } from '@oselya/model';
import { type Kysely, sql } from 'kysely';
import { createModelUsageCounter } from '../model.ts';
import { sumModelUsage } from '../queue/transitions.ts';
import type { ModelUsage, Tables } from '../tables.ts';
import { sha256 } from '../text.ts';
import { embedTogether, isTextSpecificError } from './batches.ts';
import { EMBEDDED_COLUMNS, buildEmbeddingText, isEmbedded } from './text.ts';

const PAGE_SIZE = 256;

/** Plain text that every working model accepts. */
const TEST_TEXT = 'Two rooms in Lviv';

export type BackfillReport = {
  /** Number of checked listings, without those whose request failed for another reason than their text. */
  checked: number;
  /** Number of checked listings that had no embedding of their current text by the current model. */
  outdated: number;
  embedded: number;
  /** Number of listings that changed during the run. A worker embeds them. */
  changed: number;
  /** Listings whose text the model rejected, with the reason. */
  failed: { listingId: number; reason: string }[];
};

export type BackfillOptions = {
  /** Whether to count the listings without embedding them. */
  dryRun: boolean;
  /** Stops the run and aborts the request in progress. */
  signal: AbortSignal;
  /** Called after each batch and each page. `total` is the number of listings at the start. */
  onProgress: (report: Readonly<BackfillReport>, total: number) => void;
};

/**
 * Creates missing embeddings, replaces outdated ones, and adds their model usage to the latest raw records of the listings.
 * Workers and other runs may be active, and a later run resumes an interrupted one. Specification 001, Behaviour rules,
 * 5; Contract 1.
 * @throws ModelError if a request fails for another reason than its text, such as an outage, or if the model rejects
 *   both a whole batch and a plain test text.
 */
export async function backfillEmbeddings(
  { db, model }: { db: Kysely<Tables>; model: Pick<ModelClient, 'embed' | 'embeddingModel'> },
  { dryRun, signal, onProgress }: BackfillOptions,
): Promise<BackfillReport> {
  const report: BackfillReport = { checked: 0, outdated: 0, embedded: 0, changed: 0, failed: [] };
  const total = await countListings(db);

  /**
   * Embeds listings and stores the results.
   * @throws The first error that no single text caused, after the other results are stored.
   */
  async function embedBatch(listings: readonly OutdatedListing[]): Promise<void> {
    const requests = listings.map(({ id, text }) => {
      const counter = createModelUsageCounter();
      return { listingId: id, text, signal, observe: counter.observe, counter };
    });
    const results = await embedTogether(model, requests);
    await addEmbeddingUsage(
      db,
      requests.map(({ listingId, counter }) => ({
        listing_id: listingId,
        usage: counter.getUsage(),
      })),
    );
    // A model that rejects the test text too rejects every text, so the run ends.
    if (results.every(isTextSpecificError)) await model.embed([TEST_TEXT], { signal });
    const embeddings: NewEmbedding[] = [];
    let rejectedCount = 0;
    let failure: Error | undefined;
    for (const [index, { id, hash }] of listings.entries()) {
      const result = results[index] ?? new Error('A text has neither a vector nor an error');
      if (!(result instanceof Error)) {
        embeddings.push({ listingId: id, hash, ...result });
      } else if (isTextSpecificError(result)) {
        rejectedCount += 1;
        report.failed.push({ listingId: id, reason: result.message });
      } else {
        failure ??= result;
      }
    }
    const storedCount = embeddings.length === 0 ? 0 : await storeEmbeddings(db, embeddings);
    report.embedded += storedCount;
    report.changed += embeddings.length - storedCount;
    reportProgress(embeddings.length + rejectedCount);
    if (failure !== undefined) throw failure;
  }

  function reportProgress(outdatedCount: number): void {
    report.checked += outdatedCount;
    report.outdated += outdatedCount;
    onProgress(report, total);
  }

  for (let afterId = 0; ;) {
    const page = await selectListings(db).where('id', '>', afterId).limit(PAGE_SIZE).execute();
    const lastListing = page.at(-1);
    if (lastListing === undefined) return report;
    afterId = lastListing.id;
    const outdatedListings = page
      .map((listing) => ({ ...listing, ...createHashedText(listing) }))
      .filter((listing) => !isEmbedded(listing, { ...listing, model: model.embeddingModel }));
    report.checked += page.length - outdatedListings.length;
    while (outdatedListings.length > 0) {
      const batch = outdatedListings.splice(0, MAX_TEXTS_PER_REQUEST);
      try {
        if (dryRun) reportProgress(batch.length);
        else await embedBatch(batch);
      } catch (error) {
        if (signal.aborted) return report;
        throw error;
      }
    }
    onProgress(report, total);
    if (signal.aborted) return report;
  }
}

/**
 * Embeds a listing if it has no embedding of its current text by the current model.
 * @throws ModelError
 */
export async function embedListing(
  { db, model }: { db: Kysely<Tables>; model: Pick<ModelClient, 'embed' | 'embeddingModel'> },
  listingId: number,
  signal: AbortSignal,
): Promise<void> {
  const listing = await selectListings(db).where('id', '=', listingId).executeTakeFirst();
  if (listing === undefined) return;
  const { text, hash } = createHashedText(listing);
  if (isEmbedded(listing, { hash, model: model.embeddingModel })) return;
  const { vectors, model: name } = await model.embed([text], { signal });
  const embeddings = vectors.map((vector) => ({ listingId, hash, vector, model: name }));
  await storeEmbeddings(db, embeddings);
}

type OutdatedListing = { id: number; text: string; hash: string };

type NewEmbedding = { listingId: number; hash: string; vector: number[]; model: string };

function createHashedText(listing: Parameters<typeof buildEmbeddingText>[0]) {
  const text = buildEmbeddingText(listing);
  return { text, hash: sha256(text) };
}

function selectListings(db: Kysely<Tables>) {
  return db
    .selectFrom('property_listings')
    .select(['id', 'embedding_model', 'embedding_text_hash', ...EMBEDDED_COLUMNS])
    .select(sql<boolean>`embedding is not null`.as('is_embedded'))
    .orderBy('id');
}

async function countListings(db: Kysely<Tables>): Promise<number> {
  const { listingCount } = await db
    .selectFrom('property_listings')
    .select((eb) => eb.fn.countAll<number>().as('listingCount'))
    .executeTakeFirstOrThrow();
  return listingCount;
}

/**
 * Stores embeddings of listings whose text has not changed. Locks the listings in ID order, so that no worker changes
 * them at the same time.
 * @returns The number of stored embeddings.
 */
function storeEmbeddings(db: Kysely<Tables>, embeddings: readonly NewEmbedding[]): Promise<number> {
  const ids = embeddings.map(({ listingId }) => listingId);
  const storeInTransaction = async (trx: Kysely<Tables>): Promise<number> => {
    const listings = await selectListings(trx).where('id', 'in', ids).forNoKeyUpdate().execute();
    const hashes = new Map(listings.map((listing) => [listing.id, createHashedText(listing).hash]));
    const currentEmbeddings = embeddings.filter(
      ({ listingId, hash }) => hashes.get(listingId) === hash,
    );
    await sql`
      update property_listings set
        embedding = result.vector::vector,
        embedding_model = result.model,
        embedding_text_hash = result.hash
      from unnest(
        ${currentEmbeddings.map(({ listingId }) => listingId)}::bigint[],
        ${currentEmbeddings.map(({ vector }) => formatVector(vector))}::text[],
        ${currentEmbeddings.map(({ model }) => model)}::text[],
        ${currentEmbeddings.map(({ hash }) => hash)}::text[]) as result (id, vector, model, hash)
      where property_listings.id = result.id`.execute(trx);
    return currentEmbeddings.length;
  };
  return retryConflicts(() => db.transaction().execute(storeInTransaction));
}

/** Adds model usage to the latest raw records of listings, locked in ID order. Drops that of a removed raw record. */
async function addEmbeddingUsage(
  db: Kysely<Tables>,
  usages: readonly { listing_id: number; usage: ModelUsage }[],
): Promise<void> {
  const statement = sql`
    with added as materialized (
      select current.raw_id, added.usage
      from jsonb_to_recordset(${JSON.stringify(usages)}::jsonb) as added (listing_id bigint, usage jsonb)
      join property_listings as listing on listing.id = added.listing_id
      join listing_payloads as current using (source_slug, external_id)
      where (added.usage ->> 'calls')::integer > 0),
    locked as materialized (
      select raw_data.id, added.usage from raw_data join added on raw_data.id = added.raw_id
      order by raw_data.id
      for no key update of raw_data)
    update raw_data set model_usage = ${sumModelUsage(sql`locked.usage`)}
    from locked where raw_data.id = locked.id`;
  await retryConflicts(() => statement.execute(db));
}
