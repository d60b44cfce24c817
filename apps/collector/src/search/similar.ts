import type { Kysely } from 'kysely';
import type { Tables } from '../tables.ts';
import { problem } from '../errors.ts';
import { checkRanges } from './filters.ts';
import { findDuplicates, foldGroups } from './fold.ts';
import { findNearest, type Neighbour } from './nearest.sql.ts';
import { normaliseText } from '../text.ts';
import { type Embedder, embedQuery, type QueryVector, toDirection } from './query-vector.ts';
import { loadListings, readEmbedding } from './repository.ts';
import { DEFAULT_LIMIT, type SimilarSearchRequest, type SimilarSearchResponse } from './schemas.ts';

/** Where hits are folded, so many times as many are read at first, and again while that is too few. */
const FOLD_RESERVE = 2;

/** More listings are not read to be folded: it is also the most that the index keeps in view. */
const MAX_READ_TO_FOLD = 1000;

/**
 * Finds what is near to what a request names.
 * @param signal Given when nobody waits for the answer any more.
 */
export type SimilarSearch = (
  request: SimilarSearchRequest,
  signal: AbortSignal,
) => Promise<Omit<SimilarSearchResponse, 'took_ms'>>;

/**
 * The listings nearest to a text, an embedding or a listing (which is not its own neighbour), by
 * cosine distance. No connection is held while the model is asked. Specification 001, Behaviour
 * rules; Contract 4, Search. A query without a word is near to nothing.
 * @param exactMatches Up to how many candidates the index is not used.
 * @throws ProblemError `validation_failed`, `listing_not_found`, `listing_not_embedded`,
 *   `model_unavailable`, `model_failed`.
 */
export function createSimilarSearch(deps: {
  db: Kysely<Tables>;
  model: Embedder;
  exactMatches?: number | undefined;
}): SimilarSearch {
  const { db, model, exactMatches } = deps;

  /** Reads on until there are enough groups, or no more listings that are worth it. */
  async function findFolded(nearest: Parameters<typeof findNearest>[1]): Promise<Neighbour[]> {
    for (let limit = nearest.limit * FOLD_RESERVE; ; limit *= FOLD_RESERVE) {
      const neighbours = await findNearest(db, { ...nearest, limit });
      const folded = foldGroups(neighbours);
      const isAll = neighbours.length < limit || limit * FOLD_RESERVE > MAX_READ_TO_FOLD;
      if (folded.length >= nearest.limit || isAll) return folded.slice(0, nearest.limit);
    }
  }

  return async (request, signal) => {
    const { query, embedding, listing_id, limit = DEFAULT_LIMIT, ...rest } = request;
    const { fold_duplicates = false, ...filters } = rest;
    checkRanges(filters);
    checkTarget(request);
    if (query !== undefined && normaliseText(query) === '') return { items: [] };
    const target =
      query === undefined
        ? await knownVector(db, embedding, listing_id)
        : await embedQuery(model, query, signal);
    const nearest = { ...target, filters, exclude: listing_id, limit, exactMatches };
    const neighbours = await (fold_duplicates ? findFolded(nearest) : findNearest(db, nearest));
    const ids = neighbours.map(({ id }) => id);
    const listings = await loadListings(db, ids);
    const duplicates = fold_duplicates ? await findDuplicates(db, neighbours, filters) : undefined;
    return {
      items: neighbours.flatMap(({ id, distance }) => {
        const listing = listings.get(id);
        if (listing === undefined) return [];
        return [{ listing, distance, ...(duplicates && { duplicates: duplicates.get(id) ?? [] }) }];
      }),
    };
  };
}

function checkTarget({ query, embedding, listing_id }: SimilarSearchRequest): void {
  const given = [query, embedding, listing_id].filter((one) => one !== undefined).length;
  if (given === 1) return;
  const message = `must have exactly one of query, embedding and listing_id, not ${given}`;
  throw problem('validation_failed', { errors: [{ path: 'body', message }] });
}

async function knownVector(
  db: Kysely<Tables>,
  embedding: readonly number[] | undefined,
  listingId: number | undefined,
): Promise<QueryVector> {
  if (listingId !== undefined) {
    const stored = await readEmbedding(db, listingId);
    if (stored === undefined) throw problem('listing_not_found');
    if (stored.embedding === null) throw problem('listing_not_embedded');
    return { vector: stored.embedding, embeddingModel: stored.embedding_model };
  }
  const vector = toDirection(embedding ?? []);
  if (vector !== undefined) return { vector, embeddingModel: null };
  const message = 'must not be all zeros: such a vector is near to nothing';
  throw problem('validation_failed', { errors: [{ path: 'body/embedding', message }] });
}
