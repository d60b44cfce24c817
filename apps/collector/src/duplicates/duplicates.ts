import { setImmediate } from 'node:timers/promises';
import { isDatabaseOutage } from '@oselya/db';
import type { Logger } from '@oselya/kit';
import type { Kysely } from 'kysely';
import type { Tables } from '../tables.ts';
import type { Images } from '../images/images.ts';
import type { Metrics } from '../metrics.ts';
import { repeat } from '../async/repeat.ts';
import { createFingerprintRounds } from './fingerprint-rounds.ts';

import { updatePairs } from './update-pairs.ts';
import { claimMarks, type Marked, returnMarks } from './marks.sql.ts';

const SECOND_MS = 1000;

/** Listings of one claim. */
const LISTINGS = 64;

/** After so long what was claimed and not looked at is claimed again, the second time after twice as long. */
const LEASE_MS = 60 * SECOND_MS;

/** A payload's own changes of its listing are mostly seconds apart: model calls are between them. */
const SETTLED_MS = 3 * SECOND_MS;

/** A search that goes on until it is closed; closing gives back what it has claimed. */
export type DuplicateSearch = { close: () => Promise<void> };

/**
 * Looks for duplicates of listings after they have changed, one after another, beside the jobs: a look
 * that fails costs no job anything, and is made again a minute later, then after two minutes, and at last
 * once an hour. Between looks it works out what older pictures look like. Any number of processes may do so.
 * One that is closed, or meets an outage of the database, gives back what it has claimed and not looked at.
 */
export function startDuplicateSearch(deps: {
  db: Kysely<Tables>;
  images: Pick<Images, 'fingerprintStored'>;
  log: Logger;
  metrics: { duplicateLooks: Pick<Metrics['duplicateLooks'], 'inc'> };
  intervalMs?: number;
  settledMs?: number;
}): DuplicateSearch {
  const { db, images, log, metrics, intervalMs = SECOND_MS, settledMs = SETTLED_MS } = deps;
  const ended = new AbortController();
  const { signal } = ended;
  const fingerprint = createFingerprintRounds(images, {
    signal,
    onError: (error, sha256) =>
      log.warn({ err: error, sha256 }, 'a stored picture could not be read'),
  });

  async function lookAt(marked: Marked): Promise<void> {
    try {
      await updatePairs(db, marked);
      metrics.duplicateLooks.inc({ outcome: 'done' });
    } catch (error) {
      if (isDatabaseOutage(error)) throw error;
      metrics.duplicateLooks.inc({ outcome: 'failed' });
      const { listingId: listing_id } = marked;
      log.warn({ err: error, listing_id }, 'a look for duplicates failed, and is made again');
    }
  }

  async function look(): Promise<void> {
    for (;;) {
      const leaseEndsAt = performance.now() + LEASE_MS;
      const claimed = await claimMarks(db, { limit: LISTINGS, settledMs, leaseMs: LEASE_MS });
      for (const [nth, marked] of claimed.entries()) {
        // The embedded database works in this process, and would leave requests no turn.
        await setImmediate();
        try {
          signal.throwIfAborted();
          await lookAt(marked);
        } catch (error) {
          // The rest would fail as well, one after another, and count as looked at in vain.
          await giveBack(claimed.slice(nth), leaseEndsAt - performance.now());
          throw error;
        }
      }
      if (claimed.length === 0) return;
    }
  }

  /** Gives back what was not looked at; in an outage its lease expires. */
  async function giveBack(rest: readonly Marked[], leaseMs: number): Promise<void> {
    if (leaseMs <= 0) return;
    await returnMarks(
      db,
      rest.flatMap((marked) => marked.marks),
    );
  }

  const failed = (error: unknown) => {
    if (!signal.aborted) log.warn({ err: error }, 'the search for duplicates failed for now');
  };
  const works = [look, fingerprint].map((work) =>
    repeat(intervalMs, work, { signal, onError: failed }),
  );

  return {
    async close() {
      ended.abort();
      await Promise.all(works);
    },
  };
}
