import type { Logger } from '@oselya/kit';
import type { Kysely } from 'kysely';
import type { Tables } from '../../tables.ts';
import type { Metrics } from '../../metrics.ts';
import { DEADLINE_MS } from '../deadline.ts';
import type { Ask } from './ask.ts';
import { claimFresh } from './claim-fresh.sql.ts';
import { type Claim, claimOldest, type CheckChoice, releaseListings } from './claims.sql.ts';
import { createHostLimits, type HostLimitOptions } from './host-limits.ts';
import { noteCheck, noteGone } from './verdicts.sql.ts';

const HOST_LIMITS: HostLimitOptions = { parallel: 8, perHost: 2, pauseMs: 250 };

/** Which listings a run asks after, and when two answers that they are gone count. */
export type CheckOptions = CheckChoice & {
  /** How far apart two checks must be that find a listing gone. */
  minIntervalSeconds: number;
  /** Ends the run; what was not asked by then stays as it was. */
  signal?: AbortSignal;
};

/** How many addresses were asked, and among these: what was archived, and what gave no answer. */
export type CheckResult = { checked: number; archived: number; unreachable: number };

/**
 * Asks the addresses of listings, and archives those that are gone for good. A run ends after `DEADLINE_MS`, with
 * what it has done by then. No connection of the database is held while an address is asked.
 */
export type ArchiveCheck = (options: CheckOptions) => Promise<CheckResult>;

/** Makes the archive check. Specification 001, Listing archive; Contract 4, Operations. */
export function createArchiveCheck(deps: {
  db: Kysely<Tables>;
  ask: Ask;
  metrics: Pick<Metrics, 'archiveChecks'>;
  log: Logger;
  limits?: HostLimitOptions;
  deadlineMs?: number;
}): ArchiveCheck {
  const { db, ask, metrics, log, limits = HOST_LIMITS, deadlineMs = DEADLINE_MS } = deps;

  /** Where the round through listings that were passed by has come to, in this process. */
  let reached = 0;

  /**
   * Claims listings that were never asked, and then those that were asked longest ago. Two runs at the same time get
   * different ones; one that finds another at work may get fewer.
   */
  async function claimListings(choice: CheckChoice): Promise<Claim[]> {
    const { claims, next } = await claimFresh(db, choice, reached);
    reached = next;
    const limit = choice.limit - claims.length;
    return limit === 0 ? claims : [...claims, ...(await claimOldest(db, { ...choice, limit }))];
  }

  /** Undefined where the signal came first. */
  async function check(
    claim: Claim,
    minIntervalSeconds: number,
    signal: AbortSignal,
  ): Promise<'present' | 'gone' | 'archived' | 'unreachable' | undefined> {
    const verdict = await ask(claim.url, signal).catch((error: unknown) => {
      if (!signal.aborted) throw error;
    });
    if (verdict === undefined) return undefined;
    if (verdict.state !== 'gone') {
      await noteCheck(db, claim, verdict);
      return verdict.state;
    }
    const { status } = verdict;
    if (!(await noteGone(db, claim, { status, minIntervalSeconds }))) return 'gone';
    log.info({ listing_id: claim.listingId, status }, 'a listing was archived');
    return 'archived';
  }

  return async ({ minIntervalSeconds, signal, ...options }) => {
    const deadline = AbortSignal.timeout(deadlineMs);
    const ended = signal === undefined ? deadline : AbortSignal.any([signal, deadline]);
    const inTurn = createHostLimits(limits);
    const result: CheckResult = { checked: 0, archived: 0, unreachable: 0 };
    const left = new Set<number>();
    const claims = await claimListings(options);
    const checks = claims.map((claim) =>
      inTurn(claim.url, ended, async () => {
        const outcome = ended.aborted ? undefined : await check(claim, minIntervalSeconds, ended);
        if (outcome === undefined) {
          left.add(claim.listingId);
          return;
        }
        result.checked += 1;
        if (outcome === 'archived' || outcome === 'unreachable') result[outcome] += 1;
        metrics.archiveChecks.inc({ outcome });
      }),
    );
    const ends = await Promise.allSettled(checks);
    await releaseListings(db, [...left]);
    for (const end of ends) if (end.status === 'rejected') throw end.reason;
    return result;
  };
}
