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
   * @throws DatabaseError DATABASE_UNREACHABLE, and Error after `close`.
   */
  listen: (channel: string, onNotify: OnNotify) => Promise<() => Promise<void>>;
  /** Ends the connection and all subscriptions. */
  close: () => Promise<void>;
};

/**
 * Creates a listener, which connects at the first subscription. A connection can die silently, so it is checked every
 * 15 s, and replaced if it does not respond. Notifications in between are lost, so each subscriber is then called once
 * with an empty payload.
 * @param options.createClient Creates an unconnected client for each connection.
 * @param options.onError Called for each lost connection, and for each failure to reconnect or to unsubscribe.
 */
export function createListener(options: {
  createClient: () => ListenerClient;
  onError: (error: Error) => void;
  checkIntervalMs?: number;
}): Listener {
  const { createClient, onError, checkIntervalMs = CHECK_INTERVAL_MS } = options;
  const channels = new Map<string, Set<OnNotify>>();
  const closeController = new AbortController();
  let client: ListenerClient | undefined;
  let pendingConnection: Promise<ListenerClient> | undefined;
  let checkTimer: NodeJS.Timeout | undefined;

  async function openConnection(): Promise<ListenerClient> {
    const newClient = createClient();
    newClient.on('notification', ({ channel, payload }) => publish(channel, payload ?? ''));
    newClient.on('error', (error) => onConnectionLost(newClient, error));
    newClient.on('end', () =>
      onConnectionLost(newClient, new Error('The connection for notifications ended')),
    );
    try {
      await newClient.connect();
      for (const channel of channels.keys()) await subscribe(newClient, channel);
    } catch (error) {
      await closeClient(newClient);
      throw error;
    }
    client = newClient;
    checkTimer = setInterval(() => void checkConnection(newClient), checkIntervalMs);
    checkTimer.unref();
    return newClient;
  }

  async function connect(): Promise<ListenerClient> {
    // A call to `listen` may have reconnected while `reconnect` was waiting.
    if (client !== undefined) return client;
    pendingConnection ??= openConnection().finally(() => {
      pendingConnection = undefined;
    });
    return pendingConnection;
  }

  async function checkConnection(checkedClient: ListenerClient): Promise<void> {
    const timeout = sleep(checkIntervalMs, undefined, { ref: false }).then(() => {
      throw new Error('The connection for notifications does not respond');
    });
    await Promise.race([checkedClient.query('select 1'), timeout]).catch((error: unknown) =>
      onConnectionLost(checkedClient, toError(error)),
    );
  }

  function onConnectionLost(lostClient: ListenerClient, error: Error): void {
    if (lostClient !== client || closeController.signal.aborted) return;
    client = undefined;
    clearInterval(checkTimer);
    onError(error);
    void closeClient(lostClient);
    void reconnect();
  }

  async function reconnect(): Promise<void> {
    let delayMs = RECONNECT_DELAY_MS.first;
    while (!closeController.signal.aborted) {
      try {
        await sleep(delayMs, undefined, { signal: closeController.signal });
        await connect();
        for (const channel of channels.keys()) publish(channel, '');
        return;
      } catch (error) {
        if (closeController.signal.aborted) return;
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
      if (closeController.signal.aborted) throw new Error('The listener is closed');
      const subscribers = channels.get(channel) ?? new Set();
      channels.set(channel, subscribers.add(onNotify));
      /** Removes the subscriber. Returns whether the channel has no other subscriber. */
      const removeSubscriber = (): boolean => {
        subscribers.delete(onNotify);
        const isLast = subscribers.size === 0 && channels.get(channel) === subscribers;
        return isLast && channels.delete(channel);
      };
      try {
        await subscribe(await connect(), channel);
      } catch (error) {
        removeSubscriber();
        throw createUnreachableError(error);
      }
      return async () => {
        if (!removeSubscriber()) return;
        await client?.query(`unlisten ${pg.escapeIdentifier(channel)}`).catch(onError);
      };
    },
    async close() {
      closeController.abort();
      await pendingConnection?.catch(() => undefined);
      clearInterval(checkTimer);
      if (client !== undefined) await closeClient(client);
      client = undefined;
    },
  };
}

async function subscribe(client: ListenerClient, channel: string): Promise<void> {
  await client.query(`listen ${pg.escapeIdentifier(channel)}`);
}

/** Closes a client whose connection may be dead, and ignores its errors. */
async function closeClient(client: ListenerClient): Promise<void> {
  client.removeAllListeners('end');
  client.removeAllListeners('error');
  client.on('error', () => undefined);
  await Promise.race([client.end().catch(() => undefined), sleep(1000, undefined, { ref: false })]);
}

function toError(value: unknown): Error {
  return value instanceof Error ? value : new Error(String(value));
}
