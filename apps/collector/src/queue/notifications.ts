import { setTimeout as sleep } from 'node:timers/promises';
import { notify } from '@oselya/db';
import type { Kysely } from 'kysely';
import type { Tables } from '../tables.ts';

/** The channel that notifies workers of other processes. */
export const CHANNEL = 'collector_raw';

const INTERVAL_MS = 10;

/**
 * Creates the notifications of new work. It calls workers of this process directly, and sends other processes at most
 * one `NOTIFY` in 10 ms. The `NOTIFY` is outside the transaction of the ingest, because PostgreSQL serializes the
 * commits of transactions that notify. Workers also poll (docs/adr/0014-notifications.md).
 * @param deps.onError Called when a notification fails.
 */
export function createNotifications(deps: {
  db: Kysely<Tables>;
  onError: (error: unknown) => void;
  intervalMs?: number;
}) {
  const { db, onError, intervalMs = INTERVAL_MS } = deps;
  const listeners = new Set<() => void>();
  let delivery: Promise<unknown> = Promise.resolve();
  let isScheduled = false;
  let isClosed = false;

  async function notifyOtherProcesses(): Promise<void> {
    isScheduled = false;
    await notify(db, CHANNEL).catch(onError);
    await sleep(intervalMs);
  }

  return {
    /** Notifies all workers, until `close`. */
    send: (): void => {
      if (isClosed) return;
      for (const listener of listeners) listener();
      if (isScheduled) return;
      isScheduled = true;
      delivery = delivery.then(notifyOtherProcesses);
    },
    /** Calls a listener for each notification of this process. Returns a function that unsubscribes. */
    subscribe(listener: () => void): () => void {
      listeners.add(listener);
      return () => void listeners.delete(listener);
    },
    /** Waits until the last notification is sent. */
    async close(): Promise<void> {
      isClosed = true;
      await delivery;
    },
  };
}
