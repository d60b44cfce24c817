/** Sends records side by side, those of one listing one after another. */
export type Sender<Record> = {
  /**
   * Begins to send a record, after waiting for a free place.
   * @throws What made an earlier one stop the run.
   */
  send(record: Record): Promise<void>;
  /** Waits for all that has begun. @throws What made one stop the run. */
  end(): Promise<void>;
};

/**
 * @param listingOf What a record is about: of two that are about the same the first is settled before the
 *   second is sent, since what is sent last is what holds.
 * @param deliver Sends one; what it throws ends the run.
 * @param onFailure Told as soon as one throws, since it may be long until the next is to be sent.
 */
export function createSender<Record>({
  parallel,
  listingOf,
  deliver,
  onFailure,
}: {
  parallel: number;
  listingOf: (record: Record) => string;
  deliver: (record: Record) => Promise<void>;
  onFailure: () => void;
}): Sender<Record> {
  const sending = new Map<string, Promise<void>>();
  const failures: unknown[] = [];

  async function begin(record: Record): Promise<void> {
    try {
      await deliver(record);
    } catch (error) {
      failures.push(error);
      onFailure();
    }
  }

  function check(): void {
    if (failures.length > 0) throw failures[0];
  }

  return {
    async send(record) {
      const listing = listingOf(record);
      await sending.get(listing);
      check();
      const one = begin(record).finally(() => sending.delete(listing));
      sending.set(listing, one);
      if (sending.size >= parallel) await Promise.race(sending.values());
      check();
    },
    async end() {
      await Promise.all(sending.values());
      check();
    },
  };
}
