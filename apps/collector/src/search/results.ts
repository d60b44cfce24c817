import type { Kysely } from 'kysely';
import type { Tables } from '../tables.ts';
import { findDuplicates } from './fold.ts';
import { highlight } from './highlight.ts';
import { loadListings } from './repository.ts';
import type { FulltextSearchResult, SearchFilters } from './schemas.ts';

/**
 * Loads the listings of ranked hits, in that order.
 * @param text The normalised query, when passages with its words are wanted.
 * @param folded The search's filters, when each hit stands for its group of likely duplicates.
 */
export async function toResults(
  db: Kysely<Tables>,
  hits: readonly { id: number; rank: number; group: number | null }[],
  { text, folded }: { text: string | undefined; folded: SearchFilters | undefined },
): Promise<FulltextSearchResult[]> {
  const listings = await loadListings(
    db,
    hits.map(({ id }) => id),
  );
  const duplicates = folded === undefined ? undefined : await findDuplicates(db, hits, folded);
  const words = text === undefined ? undefined : new Set(text.split(' '));
  return hits.flatMap(({ id, rank }) => {
    const listing = listings.get(id);
    if (listing === undefined) return [];
    const passage = [listing.title, listing.description].filter((part) => part !== null).join('\n');
    return [
      {
        listing,
        rank,
        ...(words && { highlight: highlight(passage, words) }),
        ...(duplicates && { duplicates: duplicates.get(id) ?? [] }),
      },
    ];
  });
}
