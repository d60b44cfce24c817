import type { Logger } from '@oselya/kit';
import type { Kysely } from 'kysely';
import { hasPermission } from '../access/permissions.ts';
import type { Announce } from '../chat/announce.ts';
import { type Collector, CollectorError } from '../collector/client.ts';
import { type Lifetime, readPermissions, readRole } from '../identity/index.ts';
import type { Tables } from '../tables.ts';
import { LeaseLostError, type Patience } from './ask-collector.ts';
import { composeDigest, SHOWN_LISTINGS } from './digest-text.ts';
import {
  type CachedRights,
  dueSearches,
  type DueSearch,
  lockDue,
  takeWaiting,
} from './digests.sql.ts';
import { lookAgain } from './look-again.ts';
import type { DigestMetrics } from './metrics.ts';

/** How many searches are looked at together. */
const BATCH = 100;

/**
 * How long one telling may wait in all for a collector that is asked too often: a minute, of which its limits are.
 * Every digest of every user waits for as long.
 */
const MOST_WAITED_SECONDS = 60;

/** What telling needs. */
export type TellDeps = {
  db: Kysely<Tables>;
  collector: Pick<Collector, 'findMatches'>;
  /** Names this process. */
  holder: string;
  announce: Announce;
  /** See {@link MOST_WAITED_SECONDS}. */
  mostWaitedSeconds?: number | undefined;
  /** How long a sign-in lasts. */
  lifetime: Lifetime;
  metrics: DigestMetrics;
  log: Pick<Logger, 'warn'>;
};

/**
 * Writes the digests that are due: one message for each search, in the transaction in which what it tells becomes
 * told, so that whatever ends the process nothing is told twice or left out. Of users who are signed in nowhere, or
 * have not the permission `svc.tools.use` by what was cached of them last, everything waits: those who have not when
 * their digest is written, as well as those for whom the collector need not be asked before. What was found some time
 * ago is told as it is by now, or as it was found where the collector does not say, or refuses the search; what was
 * found before a search was changed waits then. Where an answer is being written the collector is not asked, since
 * nothing can be told.
 * @param onBusy Is told of each session whose digest waits for the end of an answer.
 */
export async function tellDue(
  deps: TellDeps,
  signal: AbortSignal,
  onBusy: (sessionId: string) => void,
): Promise<void> {
  const { db, lifetime, log, mostWaitedSeconds: secondsLeft = MOST_WAITED_SECONDS } = deps;
  const looking = { ...deps, patience: { secondsLeft } };
  let after = '';
  let isCollectorThere = true;
  for (;;) {
    const due = await dueSearches(db, { lifetime, after, limit: BATCH });
    for (const search of due.filter(mayHear)) {
      signal.throwIfAborted();
      if (search.is_answering) {
        onBusy(search.session_id);
        continue;
      }
      try {
        isCollectorThere &&= await isLookedAtAgain(looking, search, signal);
        // An answer may have begun meanwhile.
        if ((await tell(deps, search)) === 'busy') onBusy(search.session_id);
      } catch (error) {
        signal.throwIfAborted();
        if (error instanceof LeaseLostError) return;
        // The others need not wait for it.
        log.warn({ err: error, saved_search_id: search.id }, 'a digest could not be written');
      }
    }
    after = due.at(-1)?.id ?? after;
    if (due.length < BATCH) return;
  }
}

/** @returns Whether others may be looked at again as well: a collector that does not answer is not asked for each. */
async function isLookedAtAgain(
  deps: TellDeps & { patience: Patience },
  search: DueSearch,
  signal: AbortSignal,
): Promise<boolean> {
  try {
    await lookAgain(deps, search.id, signal);
    return true;
  } catch (error) {
    // Reading the feed has it in the log: both for an outage, and for a search that the collector refuses.
    if (error instanceof CollectorError) return error.status === 422;
    throw error;
  }
}

async function tell({ announce, lifetime, metrics }: TellDeps, search: DueSearch) {
  const { id, user_id: userId, session_id: sessionId } = search;
  let listings = 0;
  const outcome = await announce({ userId, sessionId }, async (trx) => {
    const locked = await lockDue(trx, { id, sessionId, lifetime });
    if (locked === undefined || !mayHear(locked)) return undefined;
    const waiting = await takeWaiting(trx, { id, limit: SHOWN_LISTINGS });
    if (waiting === undefined) return undefined;
    listings = waiting.counts.new + waiting.counts.cheaper;
    return composeDigest({ ...locked, ...waiting });
  });
  if (outcome === 'told') metrics.countDigest(listings);
  return outcome;
}

function mayHear({ role, permissions }: CachedRights): boolean {
  const user = { role: readRole(role), permissions: readPermissions(permissions) };
  return hasPermission(user, 'svc.tools.use');
}
