import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import type { Notify } from './database.ts';
import { databaseUnreachable } from './errors.ts';

const CHECK_INTERVAL_MS = 15_000;
const RECONNECT_DELAY_MS = { first: 100, most: 10_000 };

/** What a listener uses of a `pg.Client`. */
export type ListenerClient = Pick<
  pg.Client,
  'connect' | 'end' | 'on' | 'query' | 'removeAllListeners'
>;

/** What a listener works with. */
export type ListenerOptions = {
  /** Makes a client that is not connected yet: one for each renewal. */
  createClient: () => ListenerClient;
  /** Told of each connection that was lost, and of each that could not be renewed. */
  onError: (error: Error) => void;
  /** How often the connection is checked; 15 s unless told. */
  checkIntervalMs?: number;
};

/** Hears notifications for whoever asks, until it is closed. */
export type Listener = {
  /**
   * Calls `notify` with each payload of a channel, and with an empty one where some may have been missed.
   * @returns A function that ends it.
   */
  listen(channel: string, notify: Notify): Promise<() => Promise<void>>;
  /** Ends the connection; nobody is called any more. */
  close(): Promise<void>;
};

/**
 * Hears PostgreSQL notifications over one connection, opened with the first channel. A connection can
 * die without a word (a NAT that forgets it, a server that is gone), so it is checked every 15 s and
 * renewed; after each renewal every listener is called once with an empty payload, since
 * notifications of the time between are lost. `listen` fails as every query does whose server was not reached,
 * with a DatabaseError DATABASE_UNREACHABLE.
 */
export function createListener(options: ListenerOptions): Listener {
  const { createClient, onError, checkIntervalMs = CHECK_INTERVAL_MS } = options;
  const channels = new Map<string, Set<Notify>>();
  const closing = new AbortController();
  let client: ListenerClient | undefined;
  let opening: Promise<ListenerClient> | undefined;
  let check: NodeJS.Timeout | undefined;

  async function open(): Promise<ListenerClient> {
    const next = createClient();
    next.on('notification', ({ channel, payload }) => tell(channel, payload ?? ''));
    next.on('error', (error) => lose(next, error));
    next.on('end', () => lose(next, new Error('The connection for notifications ended')));
    try {
      await next.connect();
      for (const channel of channels.keys()) await subscribe(next, channel);
    } catch (error) {
      await discard(next);
      throw error;
    }
    client = next;
    check = setInterval(() => void verify(next), checkIntervalMs);
    check.unref();
    return next;
  }

  async function connect(): Promise<ListenerClient> {
    // A new channel may have renewed the connection while `reconnect` was waiting.
    if (client !== undefined) return client;
    opening ??= open().finally(() => {
      opening = undefined;
    });
    return opening;
  }

  async function verify(current: ListenerClient): Promise<void> {
    const late = AbortSignal.timeout(checkIntervalMs);
    try {
      await Promise.race([
        current.query('select 1'),
        new Promise((_, reject) => {
          late.addEventListener('abort', () => reject(late.reason));
        }),
      ]);
    } catch (error) {
      lose(current, error instanceof Error ? error : new Error(String(error)));
    }
  }

  function lose(lost: ListenerClient, error: Error): void {
    if (lost !== client || closing.signal.aborted) return;
    client = undefined;
    clearInterval(check);
    onError(error);
    void discard(lost);
    void reconnect();
  }

  async function reconnect(): Promise<void> {
    let delayMs = RECONNECT_DELAY_MS.first;
    while (!closing.signal.aborted) {
      try {
        await sleep(delayMs, undefined, { signal: closing.signal });
        await connect();
        for (const channel of channels.keys()) tell(channel, '');
        return;
      } catch (error) {
        if (closing.signal.aborted) return;
        onError(error instanceof Error ? error : new Error(String(error)));
        delayMs = Math.min(delayMs * 2, RECONNECT_DELAY_MS.most);
      }
    }
  }

  function tell(channel: string, payload: string): void {
    for (const notify of channels.get(channel) ?? []) notify(payload);
  }

  return {
    async listen(channel, notify) {
      if (closing.signal.aborted) throw new Error('The listener is closed');
      const listeners = channels.get(channel) ?? new Set();
      channels.set(channel, listeners.add(notify));
      const forget = (): boolean => {
        listeners.delete(notify);
        return (
          listeners.size === 0 && channels.get(channel) === listeners && channels.delete(channel)
        );
      };
      try {
        await subscribe(await connect(), channel);
      } catch (error) {
        forget();
        throw databaseUnreachable(error);
      }
      return async () => {
        if (!forget()) return;
        await client?.query(`unlisten ${pg.escapeIdentifier(channel)}`).catch(onError);
      };
    },
    async close() {
      closing.abort();
      await opening?.catch(() => undefined);
      clearInterval(check);
      if (client !== undefined) await discard(client);
      client = undefined;
    },
  };
}

async function subscribe(client: ListenerClient, channel: string): Promise<void> {
  await client.query(`listen ${pg.escapeIdentifier(channel)}`);
}

/** Ends a client whose connection may be dead already: what it says about that is of no use. */
async function discard(client: ListenerClient): Promise<void> {
  client.removeAllListeners('end');
  client.removeAllListeners('error');
  client.on('error', () => undefined);
  await Promise.race([client.end().catch(() => undefined), sleep(1000, undefined, { ref: false })]);
}
