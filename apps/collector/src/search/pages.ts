import { type Position, type Search, writeCursor } from './cursor.ts';

type Hit = { id: number; rank: number };

/** Best first, newest first where ranks are equal. */
export function byRank(a: Hit, b: Hit): number {
  return b.rank - a.rank || b.id - a.id;
}

/**
 * The page of a ranking that begins after a position.
 * @param hits All of the ranking, in the order of `byRank`.
 * @returns Its hits, and the cursor of the next page; null where this is the last one.
 */
export function pageOf<Ranked extends Hit>(
  hits: readonly Ranked[],
  options: { search: Search; after: Position | undefined; limit: number; newestId: number },
): { shown: Ranked[]; next_cursor: string | null } {
  const { search, after, limit, newestId } = options;
  const rest = after === undefined ? hits : hits.filter((hit) => byRank(after, hit) < 0);
  const shown = rest.slice(0, limit);
  const last = rest.length > limit ? shown.at(-1) : undefined;
  return {
    shown,
    next_cursor:
      last === undefined ? null : writeCursor(search, { id: last.id, rank: last.rank, newestId }),
  };
}
