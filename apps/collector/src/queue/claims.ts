import type { Kysely } from 'kysely';
import type { Tables } from '../database/tables.ts';
import { aloneFrom, claimAlone } from './claim-alone.sql.ts';
import { claimJobs } from './claim.sql.ts';
import type { Job } from './job.ts';
import type { Prefetch } from './prefetch.ts';
import { roomFor } from './room.ts';
import type { Slots } from './slots.ts';
import type { Claimant } from './transitions.sql.ts';

/** What one worker claims; each throws what the database throws. */
type Claims = {
  /** Jobs for the slots that are free, and for those that soon will be. */
  next(spared: number | undefined): Promise<Job[]>;
  /** One that is to be alone in its process, if there is any. */
  alone(spared: number | undefined): Promise<Job[]>;
};

/** @param deps.mostOfOne How many slots one source may have. */
export function createClaims(deps: {
  db: Kysely<Tables>;
  claimant: Claimant;
  slots: Slots;
  prefetch: Prefetch;
  mostOfOne: () => number;
  maxAttempts: number;
}): Claims {
  const { db, claimant, slots, prefetch, mostOfOne } = deps;
  const from = aloneFrom(deps.maxAttempts);
  /** Where the round over the sources stands. */
  let lastSource: string | undefined;
  return {
    async next(spared) {
      const ahead = prefetch.next();
      const jobs = await claimJobs(db, {
        ...claimant,
        count: slots.free + ahead,
        lastSource,
        except: spared,
        room: roomFor(slots, mostOfOne(), ahead),
        aloneFrom: from,
      });
      lastSource = jobs.at(-1)?.sourceSlug;
      return jobs;
    },
    async alone(spared) {
      if (from === undefined) return [];
      const job = await claimAlone(db, { ...claimant, aloneFrom: from, except: spared });
      return job === undefined ? [] : [job];
    },
  };
}
