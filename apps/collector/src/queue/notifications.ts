import { setTimeout as sleep } from 'node:timers/promises';
import { notify } from '@oselya/db';
import type { Kysely } from 'kysely';
import type { Tables } from '../tables.ts';

/** The channel that notifies the workers of all processes. */
export const QUEUE_CHANNEL = 'collector_raw';

const MIN_INTERVAL_MS = 10;

/**
 * Creates a notifier for new jobs, which notifies at most every 10 ms. It notifies outside the ingest transaction,
 * because PostgreSQL serializes commits that notify. Workers also poll (docs/adr/0014-notifications.md).
 * @param deps.onError Called when a notification fails.
 */
export function createJobNotifier(deps: {
  db: Kysely<Tables>;
  onError: (error: unknown) => void;
  intervalMs?: number;
}) {
  const { db, onError, intervalMs = MIN_INTERVAL_MS } = deps;
  let delivery: Promise<unknown> = Promise.resolve();
  let isScheduled = false;

  async function notifyWorkers(): Promise<void> {
    isScheduled = false;
    await notify(db, QUEUE_CHANNEL).catch(onError);
    await sleep(intervalMs);
  }

  return {
    /** Notifies all workers. */
    send: (): void => {
      if (isScheduled) return;
      isScheduled = true;
      delivery = delivery.then(notifyWorkers);
    },
    /** Waits until the last notification is sent. */
    close: async (): Promise<void> => void (await delivery),
  };
}
