import { pause } from '../async/repeat.ts';
import { ENDED, type EndedStatus, type QueueReads, type Standing } from './figures.sql.ts';

/** After each piece it rests so many times as long as that took: counting has a tenth of one connection's time. */
const REST = 9;

/** How long after a count the next one begins, where somebody asks. */
const BETWEEN_MS = 60_000;

/** What is known of the payloads that have ended. */
export type EndedCounts = {
  /** Null where there are many, and they have not been counted yet since the process began. */
  counts: Record<EndedStatus, number | null>;
  /** How old the oldest of these counts is; null where one is missing. */
  ageSeconds: number | null;
};

/**
 * Counts payloads that have ended where they are too many to be counted at each look: in the background, piece by
 * piece, and never in one long statement, which would keep the vacuum from removing what the queue leaves behind.
 * What ends, or is put back, while it counts may be missed, or counted twice.
 * @param options.onError Told where it failed; what was counted before is kept.
 * @param options.clock Milliseconds that only grow.
 */
export function createEndedCounts(options: {
  countOn: QueueReads['countOn'];
  onError: (error: unknown) => void;
  clock: () => number;
}): {
  /**
   * Keeps what a look has counted, begins to count the others where it is time, and gives what is known.
   * @param begunAt When that look was begun, by the clock.
   */
  complete: (seen: Standing['ended'], begunAt: number) => EndedCounts;
  /** Ends it, and waits for the piece in progress. */
  close: () => Promise<void>;
} {
  const { countOn, onError, clock } = options;
  const known = new Map<EndedStatus, { count: number; asOf: number }>();
  const closed = new AbortController();
  const { signal } = closed;
  let counting: Promise<void> | undefined;
  let restUntil = -Infinity;

  async function countAll(statuses: readonly EndedStatus[]): Promise<void> {
    try {
      for (const status of statuses) {
        const asOf = clock();
        const count = await countOne(status);
        if (count !== undefined) known.set(status, { count, asOf });
      }
    } catch (error) {
      if (!signal.aborted) onError(error);
    } finally {
      counting = undefined;
      restUntil = clock() + BETWEEN_MS;
    }
  }

  /** Undefined where it is closed meanwhile. */
  async function countOne(status: EndedStatus): Promise<number | undefined> {
    let total = 0;
    let after: Awaited<ReturnType<typeof countOn>>['next'];
    while (!signal.aborted) {
      const begun = clock();
      const { count, next } = await countOn(status, after);
      total += count;
      if (next === undefined) return total;
      after = next;
      await pause(REST * (clock() - begun), signal);
    }
    return undefined;
  }

  const countOf = (status: EndedStatus) => known.get(status)?.count ?? null;

  return {
    complete(seen, begunAt) {
      const many: EndedStatus[] = [];
      for (const status of ENDED) {
        const count = seen[status];
        if (count === null) many.push(status);
        else known.set(status, { count, asOf: begunAt });
      }
      if (many.length > 0 && clock() >= restUntil && !signal.aborted) counting ??= countAll(many);
      const ages = ENDED.map((status) => clock() - (known.get(status)?.asOf ?? -Infinity));
      const oldest = Math.max(...ages);
      return {
        counts: {
          completed: countOf('completed'),
          invalid: countOf('invalid'),
          failed: countOf('failed'),
        },
        ageSeconds: Number.isFinite(oldest) ? oldest / 1000 : null,
      };
    },
    async close() {
      closed.abort();
      await counting;
    },
  };
}
