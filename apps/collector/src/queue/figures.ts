import type { Backlog, Ended, QueueReads } from './figures.sql.ts';

/** How the queue stands. */
export type QueueFigures = Omit<Backlog & Ended, 'counts'> & {
  counts: Backlog['counts'] & Ended['counts'];
};

/**
 * How the queue stands, at most `maxAgeMs` before it was asked for.
 * @throws What the database throws; a failure is not kept.
 */
export type ReadQueue = (options: { maxAgeMs: number }) => Promise<QueueFigures>;

/** To count what has ended takes a scan: where there is more than this, it is not done each time … */
const MANY = 100_000;
/** … but as rarely as keeps it to a hundredth of the time, or once in a minute. */
const REST = 100;
const MAX_REST_MS = 60_000;

/**
 * Shares a query among all who ask for figures that are no older than it, so that scrapes do not pile up:
 * one is running at most, and one more is waited for. All counts are of one moment, up to 100,000
 * payloads that have ended. Past that, the counts of those are as old as a hundred times what it takes to
 * count them, which is a quarter of a minute for half a million.
 * @param clock Milliseconds that only grow.
 */
export function createReadQueue(
  reads: QueueReads,
  clock: () => number = () => performance.now(),
): ReadQueue {
  let kept: { ended: Ended; until: number } | undefined;

  return createShared(async () => {
    const begun = clock();
    if (kept !== undefined && begun < kept.until)
      return together(await reads.backlog(), kept.ended);
    const { backlog, ended } = await reads.all();
    const { completed, invalid, failed } = ended.counts;
    const restMs = Math.min(MAX_REST_MS, REST * (clock() - begun));
    kept = completed + invalid + failed > MANY ? { ended, until: begun + restMs } : undefined;
    return together(backlog, ended);
  }, clock);
}

function together(backlog: Backlog, ended: Ended): QueueFigures {
  return { ...backlog, ...ended, counts: { ...backlog.counts, ...ended.counts } };
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
