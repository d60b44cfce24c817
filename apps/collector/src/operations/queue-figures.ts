import type { QueueFigures } from './queue-figures.sql.ts';

/**
 * How the queue stands, at most `maxAgeMs` ago.
 * @throws What the database throws; a failure is not kept.
 */
export type ReadQueue = (options: { maxAgeMs: number }) => Promise<QueueFigures>;

/**
 * Shares one query among all who ask while it runs, and its figures with those who take older ones: it
 * counts every finished payload, and scrapes must not pile up behind it.
 * @param read Asks the database.
 * @param clock Milliseconds that only grow.
 */
export function createReadQueue(
  read: () => Promise<QueueFigures>,
  clock: () => number = () => performance.now(),
): ReadQueue {
  let inProgress: Promise<QueueFigures> | undefined;
  let last: { figures: QueueFigures; asOf: number } | undefined;

  async function readAndKeep(): Promise<QueueFigures> {
    const asOf = clock();
    try {
      const figures = await read();
      last = { figures, asOf };
      return figures;
    } finally {
      inProgress = undefined;
    }
  }

  return async ({ maxAgeMs }) => {
    if (last !== undefined && clock() - last.asOf < maxAgeMs) return last.figures;
    inProgress ??= readAndKeep();
    return inProgress;
  };
}
