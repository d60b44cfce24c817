import { inTime } from './in-time.ts';

/** How long a scrape waits for one measure: Prometheus gives up after 10 s, and then it has nothing at all. */
const WAIT_MS = 2000;

/** How old a measure may get that nothing newer has come after: so long Prometheus shows one that has ended. */
const KEPT_MS = 300_000;

/**
 * Makes the `collect` of gauges whose value has to be asked for, of a database or a disk that may hang. A scrape
 * waits 2 s for it at most, so that the other metrics are served all the same: what comes later is shown from the
 * next scrape on, and until then what was there before, for five minutes. One is asked for at a time.
 * @param options.show Sets the gauges.
 * @param options.forget Takes their values away, since nobody knows them any more.
 * @param options.onError Told where `read` fails.
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
