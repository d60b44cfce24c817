/** What ended a run before its end. */
export type Stop = {
  /** All chosen listings up to this id are done; undefined where none is. */
  after: number | undefined;
  /** What failed; not there where somebody stopped it. */
  error?: unknown;
};

/**
 * Does something for one listing after another, in the order of their ids.
 * @param options.after The id from which on nothing is done yet.
 * @param options.onDone Told how many are done.
 * @returns Undefined where it came to its end; it never throws.
 */
export async function walk<Item extends { listingId: number }>(
  items: AsyncIterable<Item>,
  work: (item: Item) => Promise<void>,
  options: {
    after: number | undefined;
    signal: AbortSignal | undefined;
    onDone: (count: number) => void;
  },
): Promise<Stop | undefined> {
  const { signal, onDone } = options;
  let { after } = options;
  let count = 0;
  const isStopped = () => signal?.aborted === true;
  try {
    for await (const item of items) {
      await work(item);
      after = item.listingId;
      count += 1;
      onDone(count);
      if (isStopped()) return { after };
    }
    return undefined;
  } catch (error) {
    return isStopped() ? { after } : { after, error };
  }
}
