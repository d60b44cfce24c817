import type { Backlog, Ended, QueueReads } from './queue-figures.sql.ts';

/** How the queue stands. */
export type QueueFigures = Omit<Backlog & Ended, 'counts'> & {
  counts: Backlog['counts'] & Ended['counts'];
};

/**
 * How the queue stands, at most `maxAgeMs` ago.
 * @throws What the database throws; a failure is not kept.
 */
export type ReadQueue = (options: { maxAgeMs: number }) => Promise<QueueFigures>;

/** To count what has ended takes a scan: where it takes longer than this, it is not done each time. */
const CHEAP_MS = 20;
/** … but as rarely as keeps it to a hundredth of the time. */
const REST = 100;

/**
 * Shares each query among all who ask while it runs, and its figures with those who take older ones, so
 * that scrapes do not pile up. What is still to be done is as new as asked for. So is what has ended, up
 * to some 100,000 payloads; past that its counts are as old as a hundred times what it takes to count
 * them, which is a quarter of a minute for half a million. All counts are exact for their moment.
 * @param clock Milliseconds that only grow.
 */
export function createReadQueue(
  reads: QueueReads,
  clock: () => number = () => performance.now(),
): ReadQueue {
  const backlog = createShared(reads.backlog, clock);
  const ended = createShared(reads.ended, clock);
  return async ({ maxAgeMs }) => {
    const costMs = ended.costMs();
    const endedMaxAgeMs = costMs > CHEAP_MS ? Math.max(maxAgeMs, costMs * REST) : maxAgeMs;
    const [open, done] = await Promise.all([backlog.read(maxAgeMs), ended.read(endedMaxAgeMs)]);
    return { ...open, ...done, counts: { ...open.counts, ...done.counts } };
  };
}

/** A query that is shared, and kept for those who take older answers. */
function createShared<Answer>(ask: () => Promise<Answer>, clock: () => number) {
  let inProgress: Promise<Answer> | undefined;
  let last: { answer: Answer; asOf: number; costMs: number } | undefined;

  async function askAndKeep(): Promise<Answer> {
    const asOf = clock();
    try {
      const answer = await ask();
      last = { answer, asOf, costMs: clock() - asOf };
      return answer;
    } finally {
      inProgress = undefined;
    }
  }

  return {
    costMs: () => last?.costMs ?? 0,
    async read(maxAgeMs: number): Promise<Answer> {
      if (last !== undefined && clock() - last.asOf < maxAgeMs) return last.answer;
      inProgress ??= askAndKeep();
      return inProgress;
    },
  };
}
