import type { Kysely } from 'kysely';
import type { Tables } from '../database.ts';
import { type Listing, listingColumns, presentListing } from '../listings/present.ts';

/** The listings with these ids, each under its id; one deleted meanwhile is missing. */
export async function loadListings(
  db: Kysely<Tables>,
  ids: readonly number[],
): Promise<Map<number, Listing>> {
  if (ids.length === 0) return new Map();
  const rows = await db
    .selectFrom('property_listings')
    .select(listingColumns)
    .where('id', 'in', ids)
    .execute();
  return new Map(rows.map((row) => [row.id, presentListing(row)]));
}

/** A listing's embedding and the model that made it; undefined where there is no such listing. */
export function readEmbedding(
  db: Kysely<Tables>,
  id: number,
): Promise<{ embedding: string | null; embedding_model: string | null } | undefined> {
  return db
    .selectFrom('property_listings')
    .select(['embedding', 'embedding_model'])
    .where('id', '=', id)
    .executeTakeFirst();
}
