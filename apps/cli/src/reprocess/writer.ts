import type { Maintenance, Reading, WriteOutcome } from '@oselya/collector';

/** Writes readings side by side. */
export type Writer = {
  /**
   * Begins to write a reading, after waiting while as many as may be are on their way.
   * @throws What made an earlier one fail.
   */
  write(reading: Reading): Promise<void>;
  /** Waits for all that has begun. @throws What made one fail. */
  end(): Promise<void>;
};

/** @param onWritten Told what became of each. */
export function createWriter(
  { reprocess, parallel }: Pick<Maintenance, 'reprocess' | 'parallel'>,
  onWritten: (outcome: WriteOutcome) => void,
): Writer {
  const writing = new Set<Promise<void>>();
  const failures: unknown[] = [];

  async function begin(reading: Reading): Promise<void> {
    try {
      onWritten(await reprocess.write(reading));
    } catch (error) {
      failures.push(error);
    }
  }

  function check(): void {
    if (failures.length > 0) throw failures[0];
  }

  return {
    async write(reading) {
      const one = begin(reading).finally(() => writing.delete(one));
      writing.add(one);
      if (writing.size >= parallel) await Promise.race(writing);
      check();
    },
    async end() {
      await Promise.all(writing);
      check();
    },
  };
}
