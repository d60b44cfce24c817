import type { Kysely } from 'kysely';
import type { Tables } from '../tables.ts';
import { notifyWorkers } from './notifications.sql.ts';

const INTERVAL_MS = 10;

export type Notifications = {
  /** Says that there may be work. */
  send: () => void;
  /** Hears of work that came in through this process, until the returned function is called. */
  subscribe: (listener: () => void) => () => void;
  /** Sends the notification that is still due; no other follows. */
  close: () => Promise<void>;
};

/**
 * Tells workers of new work before their poll finds it. A worker in this process hears of it at once
 * and for nothing. Others are told by a notification of its own, apart from the ingest's transaction
 * and at most once in 10 ms: PostgreSQL serialises the commits of transactions that notify. They are told
 * while they are busy too: that nobody has a free slot cannot be known here, and the notifications cost less
 * than finding out would (docs/adr/0014-notifications.md).
 * @param onError Told of a notification that failed; the poll stays.
 */
export function createNotifications(deps: {
  db: Kysely<Tables>;
  onError: (error: unknown) => void;
  intervalMs?: number;
}): Notifications {
  const { db, onError, intervalMs = INTERVAL_MS } = deps;
  const listeners = new Set<() => void>();
  let timer: NodeJS.Timeout | undefined;
  /** While a notification is on its way, and in the pause after it. */
  let isBusy = false;
  /** Whether there was more meanwhile. */
  let isDue = false;
  let closed = false;
  let sending: Promise<void> = Promise.resolve();

  async function send(): Promise<void> {
    await notifyWorkers(db).catch(onError);
  }

  /** One at a time, and a pause after each: a slow database is not given more of them. */
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
