import { inTime } from './wait.ts';

/** How long a scrape waits for one measure; Prometheus gives up after 10 s. */
const WAIT_MS = 2000;

/** How long an old value is shown; Prometheus shows one that has ended as long. */
const KEPT_MS = 300_000;

/**
 * Creates the `collect` of gauges whose value is read from a database or a disk that may hang. A scrape waits 2 s at
 * most; a later value is shown by the next scrape, and the old one for five minutes until then.
 * @param options.show Sets the gauges.
 * @param options.forget Removes their values.
 * @param options.onError Called when `read` fails.
 * @param options.clock Milliseconds that only grow.
 */
export function createMeasure<Value>(options: {
  read: () => Promise<Value>;
  show: (value: Value) => void;
  forget: () => void;
  onError: (error: unknown) => void;
  clock?: () => number;
}): () => Promise<void> {
  const { read, show, forget, onError, clock = () => performance.now() } = options;
  let reading: Promise<void> | undefined;
  let shownAt: number | undefined;

  async function readAndShow(): Promise<void> {
    try {
      show(await read());
      shownAt = clock();
    } catch (error) {
      onError(error);
    } finally {
      reading = undefined;
    }
  }

  return async () => {
    reading ??= readAndShow();
    await inTime(reading, WAIT_MS);
    if (shownAt === undefined || clock() - shownAt > KEPT_MS) forget();
  };
}
