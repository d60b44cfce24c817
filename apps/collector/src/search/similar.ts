import type { Kysely } from 'kysely';
import type { Tables } from '../database.ts';
import { problem } from '../errors.ts';
import { checkRanges } from './filters.ts';
import { findNearest } from './nearest.sql.ts';
import { normaliseText } from './normalise.ts';
import { type Embedder, embedQuery, type QueryVector, toDirection } from './query-vector.ts';
import { loadListings, readEmbedding } from './repository.ts';
import { DEFAULT_LIMIT, type SimilarSearchRequest, type SimilarSearchResponse } from './schemas.ts';

/** Up to so many listings that pass the filters, all distances are computed: some 10 ms of work. */
export const EXACT_MATCHES = 5000;

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
 *   `model_unavailable`.
 */
export function createSimilarSearch(deps: {
  db: Kysely<Tables>;
  model: Embedder;
  exactMatches?: number | undefined;
}): SimilarSearch {
  const { db, model, exactMatches = EXACT_MATCHES } = deps;
  return async (request, signal) => {
    const { query, embedding, listing_id, limit = DEFAULT_LIMIT, ...filters } = request;
    checkRanges(filters);
    checkTarget(request);
    if (query !== undefined && normaliseText(query) === '') return { items: [] };
    const target =
      query === undefined
        ? await knownVector(db, embedding, listing_id)
        : await embedQuery(model, query, signal);
    const nearest = { ...target, filters, exclude: listing_id, limit, exactMatches };
    const neighbours = await findNearest(db, nearest);
    const ids = neighbours.map(({ id }) => id);
    const listings = await loadListings(db, ids);
    return {
      items: neighbours.flatMap(({ id, distance }) => {
        const listing = listings.get(id);
        return listing === undefined ? [] : [{ listing, distance }];
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
