import { type Kysely, sql } from 'kysely';
import type { Tables } from '../tables.ts';

/** The channel on which other processes learn of new work. */
export const CHANNEL = 'collector_raw';

const INTERVAL_MS = 10;

/** Notifies workers of new work. */
export type Notifications = {
  send: () => void;
  /** Calls a listener for work that came in through this process. Returns a function that ends it. */
  subscribe: (listener: () => void) => () => void;
  /** Sends the notification that is still due, and no other. */
  close: () => Promise<void>;
};

/**
 * Creates the notifications of a process. Workers in it are called directly; others get a `NOTIFY` apart from the
 * ingest's transaction, at most once in 10 ms, since PostgreSQL serializes the commits of transactions that notify.
 * A notification is only a hint: workers also poll (docs/adr/0014-notifications.md).
 * @param deps.onError Called when a notification fails.
 */
export function createNotifications(deps: {
  db: Kysely<Tables>;
  onError: (error: unknown) => void;
  intervalMs?: number;
}): Notifications {
  const { db, onError, intervalMs = INTERVAL_MS } = deps;
  const listeners = new Set<() => void>();
  let timer: NodeJS.Timeout | undefined;
  let isBusy = false;
  let isDue = false;
  let closed = false;
  let sending: Promise<unknown> = Promise.resolve();

  const send = () => sql`select pg_notify(${CHANNEL}, '')`.execute(db).catch(onError);

  async function notify(): Promise<void> {
    isBusy = true;
    isDue = false;
    await send();
    timer = setTimeout(() => {
      isBusy = false;
      if (isDue && !closed) sending = notify();
    }, intervalMs);
    timer.unref();
  }

  return {
    send() {
      for (const listener of listeners) listener();
      if (closed) return;
      if (isBusy) isDue = true;
      else sending = notify();
    },
    subscribe(listener) {
      listeners.add(listener);
      return () => void listeners.delete(listener);
    },
    async close() {
      closed = true;
      await sending;
      clearTimeout(timer);
      if (isDue) await send();
    },
  };
}
