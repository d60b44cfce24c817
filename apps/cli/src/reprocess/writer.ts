import type { Maintenance, Reading, WriteOutcome } from '@oselya/collector';

/** A listing that could not be written, and why. */
export type Failure = { listingId: number; error: unknown };

/** Writes readings side by side. */
export type Writer = {
  /**
   * Begins to write a reading, after waiting while as many as may be are on their way.
   * @throws What made an earlier one fail; then it does not begin.
   */
  write(reading: Reading): Promise<void>;
  /** Waits for all that has begun, and gives the first listing, by its id, that could not be written. */
  end(): Promise<Failure | undefined>;
};

/** @param onWritten Told what became of each listing. */
export function createWriter(
  { reprocess, parallel }: Pick<Maintenance, 'reprocess' | 'parallel'>,
  onWritten: (listingId: number, written: WriteOutcome) => void,
): Writer {
  const writing = new Set<Promise<void>>();
  const failures: Failure[] = [];

  async function begin(reading: Reading): Promise<void> {
    const { listingId } = reading;
    try {
      onWritten(listingId, await reprocess.write(reading));
    } catch (error) {
      failures.push({ listingId, error });
    }
  }

  return {
    async write(reading) {
      if (writing.size >= parallel) await Promise.race(writing);
      const [failure] = failures;
      if (failure !== undefined) throw failure.error;
      const one = begin(reading).finally(() => writing.delete(one));
      writing.add(one);
    },
    async end() {
      await Promise.all(writing);
      return failures.toSorted((one, other) => one.listingId - other.listingId)[0];
    },
  };
}
