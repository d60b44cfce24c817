import type { Kysely } from 'kysely';
import type { Tables } from '../database.ts';
import { type Position, readCursor, type Search, writeCursor } from './cursor.ts';
import { checkRanges } from './filters.ts';
import type { FulltextSearch } from './fulltext.ts';
import { findNearest } from './nearest.sql.ts';
import { normaliseText } from './normalise.ts';
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
import { EXACT_MATCHES } from './similar.ts';

/** How much being first weighs: with a small number the two firsts decide all. Contract 4, Search. */
const RANK_CONSTANT = 60;

export type HybridSearch = (
  request: FulltextSearchRequest,
  signal: AbortSignal,
) => ReturnType<FulltextSearch>;

type Hit = { id: number; rank: number };

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
  const { db, model, rankedMatches = RANKED_MATCHES, exactMatches = EXACT_MATCHES } = deps;

  /** Both rankings, and the newest id in them. The model is asked first: no connection waits for it. */
  async function rankBoth(
    query: string,
    text: string,
    filters: SearchFilters,
    after: Position | undefined,
    signal: AbortSignal,
  ) {
    const target = await embedQuery(model, query, signal);
    const shared = { filters, limit: HYBRID_DEPTH };
    const newestId = after?.newestId;
    const matches = await rankMatches(db, { ...shared, text, bound: rankedMatches, newestId });
    const neighbours = await findNearest(db, { ...shared, ...target, exactMatches, newestId });
    const near = neighbours.map(({ id }) => id);
    return {
      words: matches.hits.map(({ id }) => id),
      near,
      newestId: newestId ?? Math.max(matches.newestId ?? 0, ...near),
    };
  }

  return async (request, signal) => {
    const { query, limit = DEFAULT_LIMIT, cursor, highlight = false, ...filters } = request;
    checkRanges(filters);
    const text = normaliseText(query);
    const search: Search = { kind: 'hybrid', text, filters };
    const after = cursor === undefined ? undefined : readCursor(search, cursor);
    const { words, near, newestId } =
      text === '' ? NOTHING : await rankBoth(query, text, filters, after, signal);
    const fused = fuse([words, near]);
    const rest = after === undefined ? fused : fused.filter((hit) => compare(after, hit) < 0);
    const shown = rest.slice(0, limit);
    const last = rest.length > limit ? shown.at(-1) : undefined;
    return {
      items: await toResults(db, shown, highlight ? text : undefined),
      total: {
        value: fused.length,
        relation: Math.max(words.length, near.length) < HYBRID_DEPTH ? 'eq' : 'gte',
      },
      next_cursor: last === undefined ? null : writeCursor(search, { ...last, newestId }),
    };
  };
}

const NOTHING = { words: [], near: [], newestId: undefined };

/** Best first. */
function compare(a: Hit, b: Hit): number {
  return b.rank - a.rank || b.id - a.id;
}

function fuse(rankings: readonly (readonly number[])[]): Hit[] {
  const scores = new Map<number, number>();
  for (const ranking of rankings) {
    for (const [index, id] of ranking.entries()) {
      scores.set(id, (scores.get(id) ?? 0) + 1 / (RANK_CONSTANT + index + 1));
    }
  }
  return [...scores].map(([id, rank]) => ({ id, rank })).toSorted(compare);
}
