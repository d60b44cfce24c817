import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { createUnreachableError } from './errors.ts';

const CHECK_INTERVAL_MS = 15_000;
const RECONNECT_DELAY_MS = { first: 100, max: 10_000 };

/** Handles the payload of a notification. An empty payload may also mean that notifications were lost. */
export type OnNotify = (payload: string) => void;

export type ListenerClient = Pick<
  pg.Client,
  'connect' | 'end' | 'on' | 'query' | 'removeAllListeners'
>;

/** Subscriptions to channels over one connection. */
export type Listener = {
  /**
   * Calls `onNotify` with each payload of a channel, and with an empty payload if notifications may have been lost.
   * @returns A function that unsubscribes.
   * @throws DatabaseError DATABASE_UNREACHABLE.
   */
  listen: (channel: string, onNotify: OnNotify) => Promise<() => Promise<void>>;
  /** Ends the connection and all subscriptions. */
  close: () => Promise<void>;
};

/**
 * Creates a listener, which connects when the first channel is subscribed. A connection can die silently, so it is
 * checked every 15 s and replaced. Notifications in between are lost, so each subscriber is then called once with an
 * empty payload.
 * @param options.createClient Creates an unconnected client for each connection.
 * @param options.onError Called for each lost connection and each failed reconnection.
 */
export function createListener(options: {
  createClient: () => ListenerClient;
  onError: (error: Error) => void;
  checkIntervalMs?: number;
}): Listener {
  const { createClient, onError, checkIntervalMs = CHECK_INTERVAL_MS } = options;
  const channels = new Map<string, Set<OnNotify>>();
  const closing = new AbortController();
  let client: ListenerClient | undefined;
  let opening: Promise<ListenerClient> | undefined;
  let check: NodeJS.Timeout | undefined;

  async function open(): Promise<ListenerClient> {
    const next = createClient();
    next.on('notification', ({ channel, payload }) => publish(channel, payload ?? ''));
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
    // A call of `listen` may have reconnected while `reconnect` was waiting.
    if (client !== undefined) return client;
    opening ??= open().finally(() => {
      opening = undefined;
    });
    return opening;
  }

  async function verify(current: ListenerClient): Promise<void> {
    const late = sleep(checkIntervalMs, undefined, { ref: false }).then(() => {
      throw new Error('The connection for notifications does not answer');
    });
    await Promise.race([current.query('select 1'), late]).catch((error: unknown) =>
      lose(current, toError(error)),
    );
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
        for (const channel of channels.keys()) publish(channel, '');
        return;
      } catch (error) {
        if (closing.signal.aborted) return;
        onError(toError(error));
        delayMs = Math.min(delayMs * 2, RECONNECT_DELAY_MS.max);
      }
    }
  }

  function publish(channel: string, payload: string): void {
    for (const onNotify of channels.get(channel) ?? []) onNotify(payload);
  }

  return {
    async listen(channel, onNotify) {
      if (closing.signal.aborted) throw new Error('The listener is closed');
      const subscribers = channels.get(channel) ?? new Set();
      channels.set(channel, subscribers.add(onNotify));
      /** Returns whether the channel has no subscriber left. */
      const forget = (): boolean => {
        subscribers.delete(onNotify);
        const isLast = subscribers.size === 0 && channels.get(channel) === subscribers;
        return isLast && channels.delete(channel);
      };
      try {
        await subscribe(await connect(), channel);
      } catch (error) {
        forget();
        throw createUnreachableError(error);
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

/** Closes a client whose connection may be dead, and ignores its errors. */
async function discard(client: ListenerClient): Promise<void> {
  client.removeAllListeners('end');
  client.removeAllListeners('error');
  client.on('error', () => undefined);
  await Promise.race([client.end().catch(() => undefined), sleep(1000, undefined, { ref: false })]);
}

function toError(thrown: unknown): Error {
  return thrown instanceof Error ? thrown : new Error(String(thrown));
}
