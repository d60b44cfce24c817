import { setTimeout as sleep } from 'node:timers/promises';
import { isDatabaseOutage } from '@oselya/db';
import type { TurnProcess } from './process.ts';
import { storeEvents } from './turn-events.sql.ts';
import { LEASE_SECONDS } from './turns.sql.ts';

/** How soon after it happened an event is stored, and told to other processes. */
const STORE_MS = 200;

/**
 * How often a turn in which nothing happens says that it runs: when a connection has died without a word, and another
 * one after it, there is time left for a third.
 */
const RENEW_MS = (LEASE_SECONDS * 1000) / 4;

/** How long a store is waited for: a connection may have died without a word, and the next is tried. */
const STORE_LIMIT_MS = RENEW_MS;

/** How many turns one statement stores. */
const BATCH = 200;

/**
 * Stores what happens in the turns of this process, all of them together every 200 ms, and says that they
 * run. A turn that does not run any more by the database is stopped. While the database does not answer
 * everything is kept and stored later; turns go on meanwhile.
 */
export function createEventStore({ db, hub, sender, log }: TurnProcess) {
  let renewedAt = performance.now();
  let storing: Promise<void> | undefined;
  const timer = setInterval(() => void store(), STORE_MS);
  timer.unref();

  /** One at a time: what happens meanwhile belongs to the next. */
  function store(): Promise<void> {
    storing ??= Promise.race([
      storeAll(),
      sleep(STORE_LIMIT_MS, undefined, { ref: false }),
    ]).finally(() => {
      storing = undefined;
    });
    return storing;
  }

  async function storeAll(): Promise<void> {
    const began = performance.now();
    const isRenewal = began - renewedAt >= RENEW_MS;
    // Now, and not at the end: what `renew` asks for meanwhile is another one.
    if (isRenewal) renewedAt = began;
    const due = hub.running().filter(({ unstored }) => isRenewal || unstored.length > 0);
    try {
      for (let from = 0; from < due.length; from += BATCH) {
        const turns = due.slice(from, from + BATCH);
        const batches = turns.map((turn) => ({
          turnId: turn.turnId,
          sessionId: turn.sessionId,
          events: turn.unstored,
        }));
        const running = new Map(
          (await storeEvents(db, batches, sender)).map((row) => [row.id, row.cancel_requested]),
        );
        for (const [index, turn] of turns.entries()) {
          const isCancelled = running.get(turn.turnId);
          if (isCancelled === undefined) turn.stop('lost');
          else if (isCancelled) turn.stop('cancelled');
          turn.noteStored(batches[index]?.events.at(-1)?.seq ?? 0);
        }
      }
    } catch (error) {
      if (isRenewal) renewedAt = -Infinity;
      // What comes after an outage stores this, too.
      if (!isDatabaseOutage(error)) log.warn({ err: error }, 'events of turns could not be stored');
    }
  }

  return {
    /** Looks at once whether the turns of this process are to go on. */
    renew: (): void => {
      renewedAt = -Infinity;
      void store();
    },
    close: () => clearInterval(timer),
  };
}
