import type { Outage } from '@oselya/model';

/**
 * A job that failed in so many outages, each of which ended with an answer to another job, is what brings
 * them about: a text that the server crashes on, or works on for longer than a call may take.
 */
const MOST_OUTAGES = 5;
/** So many jobs are remembered; those that met an outage longest ago are forgotten first. */
const MAX_JOBS = 10_000;

/** What a process knows of the jobs that its model failed. */
export type ModelOutages = {
  /** Says whether a job met an outage, rather than made it. */
  isVictim(rawId: number, outage: Outage): boolean;
  /** Whether a job has met an outage, and has not ended since. */
  hasMet(rawId: number): boolean;
  /** Forgets a job that has ended. */
  forget(rawId: number): void;
};

/** Tells jobs that an outage kept from the model from those that make the model server fail. */
export function createModelOutages(): ModelOutages {
  const met = new Map<number, { count: number; last: Outage }>();
  return {
    isVictim(rawId, outage) {
      const before = met.get(rawId) ?? { count: 0, last: undefined };
      const count = before.last === outage ? before.count : before.count + 1;
      met.delete(rawId);
      met.set(rawId, { count, last: outage });
      const [oldest] = met.keys();
      if (met.size > MAX_JOBS && oldest !== undefined) met.delete(oldest);
      return count < MOST_OUTAGES;
    },
    hasMet: (rawId) => met.has(rawId),
    forget: (rawId) => void met.delete(rawId),
  };
}
