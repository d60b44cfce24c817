import type { Kysely } from 'kysely';
import type { Tables } from '../tables.ts';
import { findNearest } from './nearest.sql.ts';
import { byRank } from './pages.ts';
import { type Embedder, embedQuery } from './query-vector.ts';
import { createRankedSearch, type RankedSearch, type Ranking } from './ranked-search.ts';
import { rankMatches } from './ranking.sql.ts';
import { HYBRID_DEPTH, RANKED_MATCHES } from './schemas.ts';

/** How much being first weighs: with a small number the two firsts decide all. Contract 4, Search. */
const RANK_CONSTANT = 60;

type Hit = { id: number; group: number | null };

/**
 * Fuses the full-text and the similarity ranking of a query: each listing scores 1 / (60 + place) in
 * each, and the sums are compared (reciprocal rank fusion), newest first where they are equal. The model
 * is asked first, so that no connection waits for it, and then both rankings are worked out at the same time.
 * @throws ProblemError as `createRankedSearch` and `embedQuery` say.
 */
export function createHybridSearch(deps: {
  db: Kysely<Tables>;
  model: Embedder;
  rankedMatches?: number | undefined;
  exactMatches?: number | undefined;
}): RankedSearch {
  const { db, model, rankedMatches = RANKED_MATCHES, exactMatches } = deps;
  return createRankedSearch(db, 'hybrid', async ({ written, text, filters }, after, signal) => {
    const target = await embedQuery(model, written, signal);
    const nearest = { ...target, filters, limit: HYBRID_DEPTH, exactMatches };
    const known = after?.newestId;
    const [{ ranked, newestId }, found] = await Promise.all([
      rankMatches(db, { text, filters, bound: rankedMatches, newestId: known }),
      findNearest(db, { ...nearest, newestId: known }),
    ]);
    const words = ranked.slice(0, HYBRID_DEPTH);
    // One that came between the two queries is on no page. The next ones do not know of it, and have another in its place.
    const hasNewer = found.some(({ id }) => id > newestId);
    const near = hasNewer ? await findNearest(db, { ...nearest, newestId }) : found;
    const isCut = Math.max(words.length, near.length) >= HYBRID_DEPTH;
    return { hits: fuse([words, near]), newestId, isCut };
  });
}

function fuse(rankings: readonly (readonly Hit[])[]): Ranking['hits'] {
  const fused = new Map<number, Ranking['hits'][number]>();
  for (const ranking of rankings) {
    for (const [index, { id, group }] of ranking.entries()) {
      const rank = (fused.get(id)?.rank ?? 0) + 1 / (RANK_CONSTANT + index + 1);
      fused.set(id, { id, group, rank });
    }
  }
  return [...fused.values()].toSorted(byRank);
}
