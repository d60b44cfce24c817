import { setTimeout as sleep } from 'node:timers/promises';
import { notify } from '@oselya/db';
import type { Kysely } from 'kysely';
import type { Tables } from '../tables.ts';

/** The channel that notifies the workers of all processes. */
export const CHANNEL = 'collector_raw';

const INTERVAL_MS = 10;

/**
 * Creates the notifications of new work, at most one in 10 ms. They are outside the transaction of the ingest, because
 * PostgreSQL serializes the commits of transactions that notify. Workers also poll (docs/adr/0014-notifications.md).
 * @param deps.onError Called when a notification fails.
 */
export function createNotifications(deps: {
  db: Kysely<Tables>;
  onError: (error: unknown) => void;
  intervalMs?: number;
}) {
  const { db, onError, intervalMs = INTERVAL_MS } = deps;
  let delivery: Promise<unknown> = Promise.resolve();
  let isScheduled = false;

  async function notifyWorkers(): Promise<void> {
    isScheduled = false;
    await notify(db, CHANNEL).catch(onError);
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
