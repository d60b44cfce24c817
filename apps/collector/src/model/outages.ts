/** So many jobs and images are remembered; those that met an outage longest ago are forgotten first. */
const MAX_KEYS = 10_000;

/**
 * Counts the outages of a server that a job or an image has met. Each outage ends with an answer to another request,
 * so one that met many of them is what the server fails on.
 */
export type OutageCounts<Key> = {
  /**
   * Counts an outage, once for each key.
   * @param outage The same object for all requests that failed in it.
   * @returns How many the key has met.
   */
  add(key: Key, outage: object): number;
  /** Tells whether the key has met one, and has not been forgotten since. */
  has(key: Key): boolean;
  forget(key: Key): void;
};

/** Creates the counts of a process: they are in memory. */
export function createOutageCounts<Key>(): OutageCounts<Key> {
  const met = new Map<Key, { count: number; last: object }>();
  return {
    add(key, outage) {
      const before = met.get(key);
      const count = (before?.count ?? 0) + (before?.last === outage ? 0 : 1);
      met.delete(key);
      met.set(key, { count, last: outage });
      const [oldest] = met.keys();
      if (met.size > MAX_KEYS && oldest !== undefined) met.delete(oldest);
      return count;
    },
    has: (key) => met.has(key),
    forget: (key) => void met.delete(key),
  };
}
