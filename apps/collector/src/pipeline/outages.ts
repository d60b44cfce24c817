/**
 * A job that failed in so many outages of the model, each of which ended with an answer to another job, is what
 * brings them about: a text that the server crashes on, or works on for longer than a call may take.
 */
export const MOST_MODEL_OUTAGES = 5;

/**
 * The same for the image store, whose outages end when something else could be stored: a picture that it does not
 * take. A store that refuses every other request meets a job of many pictures at each attempt, so there are more.
 */
export const MOST_STORE_OUTAGES = 10;

/** So many jobs are remembered; those that met an outage longest ago are forgotten first. */
const MAX_JOBS = 10_000;

/** What a process knows of the jobs that its model, or its image store, failed. */
export type JobOutages = {
  /**
   * Says whether a job met an outage, rather than made it.
   * @param outage The same object for all that failed in it.
   */
  isVictim(rawId: number, outage: object): boolean;
  /** Whether a job has met an outage, and has not ended since. */
  hasMet(rawId: number): boolean;
  /** Forgets a job that has ended. */
  forget(rawId: number): void;
};

/**
 * Tells jobs that an outage kept from a server from those that make it fail.
 * @param most In so many outages a job has met none, but made them.
 */
export function createJobOutages(most: number): JobOutages {
  const met = new Map<number, { count: number; last: object }>();
  return {
    isVictim(rawId, outage) {
      const before = met.get(rawId) ?? { count: 0, last: undefined };
      const count = before.last === outage ? before.count : before.count + 1;
      met.delete(rawId);
      met.set(rawId, { count, last: outage });
      const [oldest] = met.keys();
      if (met.size > MAX_JOBS && oldest !== undefined) met.delete(oldest);
      return count < most;
    },
    hasMet: (rawId) => met.has(rawId),
    forget: (rawId) => void met.delete(rawId),
  };
}
