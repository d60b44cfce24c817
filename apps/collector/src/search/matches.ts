import type { Kysely } from 'kysely';
import type { Tables } from '../tables.ts';
import { normaliseText } from '../text.ts';
import { checkRanges } from './filters.ts';
import { listMatching } from './repository.ts';
import type { MatchesRequest, MatchesResponse } from './schemas.ts';

/**
 * Which of some listings a full-text search finds, in the order in which they were named. Unlike the search
 * it reads no others, so it finds them however many newer ones match.
 * @throws ProblemError `validation_failed` for an empty range.
 */
export async function findMatching(
  db: Kysely<Tables>,
  { ids, query, ...filters }: MatchesRequest,
): Promise<Omit<MatchesResponse, 'took_ms'>> {
  checkRanges(filters);
  const text = query === undefined ? undefined : normaliseText(query);
  if (text === '') return { items: [] };
  const found = await listMatching(db, { ids, text, filters });
  const listings = new Map(found.map((listing) => [listing.listing_id, listing]));
  return {
    items: ids.flatMap((id) => {
      const listing = listings.get(id);
      return listing === undefined ? [] : [{ listing }];
    }),
  };
}
