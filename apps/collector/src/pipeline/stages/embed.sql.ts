import { toVector } from '@oselya/db';
import { type Kysely, sql } from 'kysely';
import type { Tables } from '../../tables.ts';
import {
  EMBEDDED_COLUMNS,
  type EmbeddedListing,
  type EmbeddingState,
} from '../../embeddings/text.ts';
import { ofListing } from '../../listing/listing.ts';
import { type Fence, heldListing, LeaseLostError } from '../../queue/index.ts';

/** A listing as its embedding sees it, and the last payload that it was made from. */
export function findEmbedded(
  db: Kysely<Tables>,
  listingId: number,
): Promise<EmbeddedListing & EmbeddingState & { raw_id: number }> {
  return db
    .selectFrom('property_listings as listing')
    .innerJoin('listing_payloads as current', ofListing)
    .select(['raw_id', 'embedding_model', 'embedding_text_hash', ...EMBEDDED_COLUMNS])
    .select(sql<boolean>`embedding is not null`.as('is_embedded'))
    .where('id', '=', listingId)
    .executeTakeFirstOrThrow();
}

/**
 * Writes a listing's embedding.
 * @param embedding.hash Of the text that it was made from.
 * @returns Whether the listing is still what this job made of it: else nothing is written.
 * @throws LeaseLostError.
 */
export async function writeEmbedding(
  db: Kysely<Tables>,
  job: Fence,
  listingId: number,
  { vector, model, hash }: { vector: readonly number[]; model: string; hash: string },
): Promise<boolean> {
  const { rows } = await sql<{ is_current: boolean }>`
    with claim as materialized (${heldListing(job)}),
    written as (
      update property_listings set
        embedding = ${toVector(vector)}::vector,
        embedding_model = ${model},
        embedding_text_hash = ${hash}
      from claim
      where claim.is_current and property_listings.id = ${listingId})
    select is_current from claim`.execute(db);
  if (rows[0] === undefined) throw new LeaseLostError(job);
  return rows[0].is_current;
}
