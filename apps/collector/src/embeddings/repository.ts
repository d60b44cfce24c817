import { retryConflicts, toVector } from '@oselya/db';
import { type Kysely, sql } from 'kysely';
import type { ModelUsage, Tables } from '../tables.ts';
import { costWith } from '../queue/transitions.ts';
import { sha256 } from '../text.ts';
import {
  EMBEDDED_COLUMNS,
  type EmbeddedListing,
  embeddingText,
  type EmbeddingState,
} from './text.ts';

/** A listing as its embedding sees it. */
export type Candidate = EmbeddedListing & EmbeddingState & { id: number };

/** A vector that was made of a text. */
export type Filling = { listingId: number; hash: string; vector: number[]; model: string };

function selectCandidates(db: Kysely<Tables>) {
  return db
    .selectFrom('property_listings')
    .select(['id', 'embedding_model', 'embedding_text_hash', ...EMBEDDED_COLUMNS])
    .select(sql<boolean>`embedding is not null`.as('is_embedded'))
    .orderBy('id');
}

/** Listings after an id, archived ones too, in the order of their ids. */
export function listCandidates(
  db: Kysely<Tables>,
  { after, limit }: { after: number; limit: number },
): Promise<Candidate[]> {
  return selectCandidates(db).where('id', '>', after).limit(limit).execute();
}

/** How many listings there are. */
export async function countListings(db: Kysely<Tables>): Promise<number> {
  const { n } = await db
    .selectFrom('property_listings')
    .select((eb) => eb.fn.countAll<number>().as('n'))
    .executeTakeFirstOrThrow();
  return n;
}

/**
 * Stores embeddings of listings whose text is still the one that they were made of. The listings are
 * locked while that is looked at, in the order of their ids, so a worker that changes one does so before or
 * after.
 * @returns How many were stored: the others were changed meanwhile, and their worker embeds them.
 */
export function storeEmbeddings(db: Kysely<Tables>, fillings: readonly Filling[]): Promise<number> {
  const write = async (trx: Kysely<Tables>): Promise<number> => {
    const listings = await selectCandidates(trx)
      .where(
        'id',
        'in',
        fillings.map(({ listingId }) => listingId),
      )
      .forNoKeyUpdate()
      .execute();
    const hashes = new Map(listings.map((listing) => [listing.id, sha256(embeddingText(listing))]));
    const current = fillings.filter(({ listingId, hash }) => hashes.get(listingId) === hash);
    await sql`
      update property_listings set
        embedding = filling.vector::vector,
        embedding_model = filling.model,
        embedding_text_hash = filling.hash
      from unnest(
        ${current.map(({ listingId }) => listingId)}::bigint[],
        ${current.map(({ vector }) => toVector(vector))}::text[],
        ${current.map(({ model }) => model)}::text[],
        ${current.map(({ hash }) => hash)}::text[]) as filling (id, vector, model, hash)
      where property_listings.id = filling.id`.execute(trx);
    return current.length;
  };
  return retryConflicts(() => db.transaction().execute(write));
}

/**
 * Adds what embeddings cost to what the last payloads of their listings have cost so far. One that was
 * cleaned up has no record to add it to. The records are locked in the order of their ids, as by all who
 * lock several.
 */
export async function addEmbeddingCosts(
  db: Kysely<Tables>,
  costs: readonly { listingId: number; usage: ModelUsage }[],
): Promise<void> {
  const items = costs.map(({ listingId, usage }) => ({ listing_id: listingId, usage }));
  const add = sql`
    with cost as materialized (
      select current.raw_id, cost.usage
      from jsonb_to_recordset(${JSON.stringify(items)}::jsonb) as cost (listing_id bigint, usage jsonb)
      join property_listings as listing on listing.id = cost.listing_id
      join listing_payloads as current using (source_slug, external_id)
      where (cost.usage ->> 'calls')::integer > 0),
    locked as materialized (
      select raw_data.id, cost.usage from raw_data join cost on raw_data.id = cost.raw_id
      order by raw_data.id
      for no key update of raw_data)
    update raw_data set model_usage = ${costWith(sql`locked.usage`)}
    from locked where raw_data.id = locked.id`;
  await retryConflicts(() => add.execute(db));
}
