import type { Kysely } from 'kysely';
import type { Tables } from '../database.ts';
import { type Position, readCursor, type Search } from './cursor.ts';
import { checkRanges } from './filters.ts';
import { foldGroups } from './fold.ts';
import type { FulltextSearch } from './fulltext.ts';
import { findNearest } from './nearest.sql.ts';
import { normaliseText } from './normalise.ts';
import { byRank, pageOf } from './pages.ts';
import { type Embedder, embedQuery } from './query-vector.ts';
import { rankMatches } from './ranking.sql.ts';
import { toResults } from './results.ts';
import {
  DEFAULT_LIMIT,
  type FulltextSearchRequest,
  HYBRID_DEPTH,
  RANKED_MATCHES,
  type SearchFilters,
} from './schemas.ts';

/** How much being first weighs: with a small number the two firsts decide all. Contract 4, Search. */
const RANK_CONSTANT = 60;

export type HybridSearch = (
  request: FulltextSearchRequest,
  signal: AbortSignal,
) => ReturnType<FulltextSearch>;

type Hit = { id: number; group: number | null };

/**
 * Fuses the full-text and the similarity ranking of a query: each listing scores 1 / (60 + place) in
 * each, and the sums are compared (reciprocal rank fusion), newest first where they are equal.
 * @throws ProblemError as the two searches do.
 */
export function createHybridSearch(deps: {
  db: Kysely<Tables>;
  model: Embedder;
  rankedMatches?: number | undefined;
  exactMatches?: number | undefined;
}): HybridSearch {
  const { db, model, rankedMatches = RANKED_MATCHES, exactMatches } = deps;

  /** Both rankings, and the newest id there was. The model is asked first: no connection waits for it. */
  async function rankBoth(
    query: { written: string; text: string; filters: SearchFilters },
    after: Position | undefined,
    signal: AbortSignal,
  ) {
    const { written, text, filters } = query;
    const target = await embedQuery(model, written, signal);
    const matches = { text, filters, bound: rankedMatches, newestId: after?.newestId };
    const { ranked, newestId } = await rankMatches(db, matches);
    const nearest = { ...target, filters, limit: HYBRID_DEPTH, exactMatches, newestId };
    return {
      words: ranked.slice(0, HYBRID_DEPTH),
      near: await findNearest(db, nearest),
      newestId,
    };
  }

  return async (request, signal) => {
    const { query, limit = DEFAULT_LIMIT, cursor, highlight = false, ...rest } = request;
    const { fold_duplicates = false, ...filters } = rest;
    checkRanges(filters);
    const text = normaliseText(query);
    const search: Search = { kind: 'hybrid', text, filters, folded: fold_duplicates };
    const after = cursor === undefined ? undefined : readCursor(search, cursor);
    const { words, near, newestId } =
      text === '' ? NOTHING : await rankBoth({ written: query, text, filters }, after, signal);
    const fused = fuse([words, near]);
    const hits = fold_duplicates ? foldGroups(fused) : fused;
    const { shown, next_cursor } = pageOf(hits, { search, after, limit, newestId });
    return {
      items: await toResults(db, shown, {
        text: highlight ? text : undefined,
        folded: fold_duplicates ? filters : undefined,
      }),
      total: {
        value: hits.length,
        relation: Math.max(words.length, near.length) < HYBRID_DEPTH ? 'eq' : 'gte',
      },
      next_cursor,
    };
  };
}

const NOTHING = { words: [], near: [], newestId: 0 };

function fuse(rankings: readonly (readonly Hit[])[]): (Hit & { rank: number })[] {
  const fused = new Map<number, Hit & { rank: number }>();
  for (const ranking of rankings) {
    for (const [index, { id, group }] of ranking.entries()) {
      const rank = (fused.get(id)?.rank ?? 0) + 1 / (RANK_CONSTANT + index + 1);
      fused.set(id, { id, group, rank });
    }
  }
  return [...fused.values()].toSorted(byRank);
}
