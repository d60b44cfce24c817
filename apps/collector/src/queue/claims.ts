import type { Kysely } from 'kysely';
import type { Tables } from '../tables.ts';
import { aloneFrom, claimAlone, takeDrain } from './claim-alone.sql.ts';
import { claimJobs } from './claim.sql.ts';
import type { Job } from './job.ts';
import type { Prefetch } from './prefetch.ts';
import type { Slots } from './slots.ts';
import type { Claimant } from './transitions.sql.ts';

/** What one worker claims. */
export type Claims = {
  /**
   * Jobs for the slots that are free and for those that soon will be, or one that is to be alone in the process.
   * Where no slot is free: jobs to begin beyond them, one of each source that has nothing in progress while another
   * has several.
   * @param spared Jobs to leave out.
   * @returns No jobs where there are none for now; undefined where none may be claimed, since one is alone, or the
   *   slots are drained for one.
   * @throws What the database throws.
   */
  next(spared: readonly number[]): Promise<Job[] | undefined>;
};

/**
 * @param deps.pollMs How old may be what is known of a drain: one that another worker has made needless ends then.
 * @param deps.clock Milliseconds that only grow.
 */
export function createClaims(deps: {
  db: Kysely<Tables>;
  claimant: Claimant;
  slots: Slots;
  prefetch: Prefetch;
  maxAttempts: number;
  pollMs: number;
  clock?: () => number;
}): Claims {
  const { db, claimant, slots, prefetch, pollMs } = deps;
  const { clock = () => performance.now() } = deps;
  const from = aloneFrom(deps.maxAttempts);
  /** Where the round over the sources stands. */
  let lastSource: string | undefined;
  /** The job that is alone, or was until now: others have a turn before the next one. */
  let alone: Job | undefined;
  const drain = { isOn: false, askedAt: -Infinity };

  async function others(spared: readonly number[]): Promise<Job[]> {
    const ahead = prefetch.next();
    const jobs = await claimJobs(db, {
      ...claimant,
      count: slots.free + ahead,
      lastSource,
      except: spared,
      aloneFrom: from,
    });
    lastSource = jobs.at(-1)?.sourceSlug;
    return jobs;
  }

  async function beyond(spared: readonly number[]): Promise<Job[] | undefined> {
    if (slots.extra === 0 || drain.isOn) return undefined;
    return claimJobs(db, {
      ...claimant,
      count: slots.extra,
      lastSource,
      except: spared,
      ofNewcomers: true,
      aloneFrom: from,
    });
  }

  /** One job where the slots are empty, or undefined where they are to become so. */
  async function nextAlone(spared: readonly number[]): Promise<Job[] | undefined> {
    if (from === undefined) return [];
    const which = { ...claimant, aloneFrom: from, except: spared };
    if (slots.isEmpty) {
      drain.isOn = false;
      alone = await claimAlone(db, which);
      return alone === undefined ? [] : [alone];
    }
    if (clock() - drain.askedAt >= pollMs) {
      drain.isOn = await takeDrain(db, which);
      drain.askedAt = clock();
    }
    return drain.isOn ? undefined : [];
  }

  return {
    async next(spared) {
      if (slots.all().some(({ job }) => job === alone)) return undefined;
      if (slots.free <= 0) return beyond(spared);
      const isOthersTurn = alone !== undefined;
      alone = undefined;
      const turns = isOthersTurn ? [others, nextAlone] : [nextAlone, others];
      for (const turn of turns) {
        const jobs = await turn(spared);
        if (jobs === undefined || jobs.length > 0) return jobs;
      }
      return [];
    },
  };
}
