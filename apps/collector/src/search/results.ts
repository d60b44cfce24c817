import type { Kysely } from 'kysely';
import type { Tables } from '../database.ts';
import { highlight } from './highlight.ts';
import { loadListings } from './repository.ts';
import type { FulltextSearchResult } from './schemas.ts';

/**
 * Loads the listings of ranked ids, in that order.
 * @param text The normalised query, when passages with its words are wanted.
 */
export async function toResults(
  db: Kysely<Tables>,
  hits: readonly { id: number; rank: number }[],
  text: string | undefined,
): Promise<FulltextSearchResult[]> {
  const listings = await loadListings(
    db,
    hits.map(({ id }) => id),
  );
  const words = text === undefined ? undefined : new Set(text.split(' '));
  return hits.flatMap(({ id, rank }) => {
    const listing = listings.get(id);
    if (listing === undefined) return [];
    if (words === undefined) return [{ listing, rank }];
    const passage = [listing.title, listing.description].filter((part) => part !== null).join('\n');
    return [{ listing, rank, highlight: highlight(passage, words) }];
  });
}
