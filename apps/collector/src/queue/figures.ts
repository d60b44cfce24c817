import { createEndedCounts, type EndedCounts } from './ended-counts.ts';
import type { QueueReads, Standing } from './figures.sql.ts';

/** How the queue stands. */
export type QueueFigures = Omit<Standing, 'counts' | 'ended'> & {
  counts: Standing['counts'] & EndedCounts['counts'];
  endedAgeSeconds: EndedCounts['ageSeconds'];
};

/**
 * How the queue stands, at most `maxAgeMs` before it was asked for.
 * @throws What the database throws; a failure is not kept.
 */
export type ReadQueue = (options: { maxAgeMs: number }) => Promise<QueueFigures>;

/**
 * Shares a query among all who ask for figures that are no older than it, so that scrapes do not pile up:
 * one is running at most, and one more is waited for. All counts are of one moment, up to 100,000 payloads that
 * have ended so; beyond that the count of these is what was counted last in the background. So it takes as long
 * however many have ended.
 * @param deps.onError Told where counting in the background failed.
 * @param deps.clock Milliseconds that only grow.
 */
export function createQueueFigures(deps: {
  reads: QueueReads;
  onError: (error: unknown) => void;
  clock?: () => number;
}): {
  read: ReadQueue;
  /** Ends the counting. */
  close: () => Promise<void>;
} {
  const { reads, onError, clock = () => performance.now() } = deps;
  const { complete, close } = createEndedCounts({ countOn: reads.countOn, onError, clock });

  const read = createShared(async () => {
    const begun = clock();
    const { counts, ended, ...others } = await reads.standing();
    const { counts: endedCounts, ageSeconds } = complete(ended, begun);
    return { ...others, counts: { ...counts, ...endedCounts }, endedAgeSeconds: ageSeconds };
  }, clock);

  return { read, close };
}

/** A query that is shared, and kept for those who take older answers. */
function createShared<Answer>(ask: () => Promise<Answer>, clock: () => number) {
  let inProgress: Promise<void> | undefined;
  let last: { answer: Answer; asOf: number } | undefined;

  async function askAndKeep(): Promise<void> {
    const asOf = clock();
    try {
      last = { answer: await ask(), asOf };
    } finally {
      inProgress = undefined;
    }
  }

  return async ({ maxAgeMs }: { maxAgeMs: number }): Promise<Answer> => {
    const oldest = clock() - maxAgeMs;
    for (;;) {
      if (last !== undefined && last.asOf >= oldest) return last.answer;
      // One that was begun too early shows what was before: whoever asks has perhaps just changed that.
      inProgress ??= askAndKeep();
      await inProgress;
    }
  };
}
