import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { join } from 'node:path';
import { startProcess as start, until } from '@oselya/testing';
import { type Kysely, type RawBuilder, sql, type Transaction } from 'kysely';
import pg from 'pg';
import type { Tables } from '../../src/tables.ts';
import type { Browser, TestAssistant } from '../helpers/assistant.ts';

/** A server that a test can make unreachable. */
export type InterruptibleServer = {
  url: string;
  interrupt(): Promise<void>;
  restore(): Promise<void>;
  close(): Promise<void>;
};

/** Ends all connections to one database and rejects new ones, as a restart does. */
export async function interruptDatabase(databaseUrl: string): Promise<InterruptibleServer> {
  const name = new URL(databaseUrl).pathname.slice(1);
  const client = new pg.Client({ connectionString: process.env['TEST_DATABASE_URL'] });
  await client.connect();
  async function restore() {
    await client.query(`alter database ${name} allow_connections true`);
  }
  return {
    url: databaseUrl,
    async interrupt() {
      await client.query(`alter database ${name} allow_connections false`);
      await client.query(
        'select pg_terminate_backend(pid) from pg_stat_activity where datname = $1',
        [name],
      );
    },
    restore,
    async close() {
      await restore();
      await client.end();
    },
  };
}

/** Starts a proxy to a database or an assistant, which can break connections and stop listening. */
export async function startProxy(
  address: string,
): Promise<InterruptibleServer & { leadTo(address: string): void }> {
  let target = new URL(address);
  const sockets = new Set<Socket>();
  const proxy = createServer((clientSocket) => {
    const serverSocket = connect(Number(target.port || 5432), target.hostname);
    for (const socket of [clientSocket, serverSocket]) {
      sockets.add(socket);
      socket.on('error', () => undefined);
      socket.on('close', () => {
        sockets.delete(socket);
        clientSocket.destroy();
        serverSocket.destroy();
      });
    }
    clientSocket.pipe(serverSocket).pipe(clientSocket);
  });
  proxy.listen(0, '127.0.0.1');
  await once(proxy, 'listening');
  const { port } = proxy.address() as AddressInfo;
  const url = new URL(target);
  url.hostname = '127.0.0.1';
  url.port = String(port);
  async function interrupt() {
    const closeEvent = once(proxy, 'close');
    proxy.close();
    // After `resetAndDestroy` Node sometimes does not exit.
    for (const socket of sockets) socket.destroy();
    await closeEvent;
  }
  return {
    url: url.href,
    interrupt,
    /** Sets the target of later connections. */
    leadTo(other) {
      target = new URL(other);
    },
    async restore() {
      proxy.listen(port, '127.0.0.1');
      await once(proxy, 'listening');
    },
    close: async () => {
      if (proxy.listening) await interrupt();
    },
  };
}

/** Holds the locks of a statement while `work` runs. */
export async function withLock(
  db: Kysely<Tables>,
  lock: RawBuilder<unknown>,
  work: () => Promise<void>,
): Promise<void> {
  await db.transaction().execute(async (trx) => {
    await lock.execute(trx);
    await work();
  });
}

/**
 * Waits until another connection waits for a lock, and returns its process ID.
 * @param kind The `wait_event` of the lock; any by default.
 */
export async function waitUntilBlocked(
  db: Kysely<Tables> | Transaction<Tables>,
  kind?: 'advisory',
): Promise<number> {
  let pid: number | undefined;
  await until(async () => {
    const { rows } = await sql<{ pid: number }>`
      select pid from pg_stat_activity
      where datname = current_database() and wait_event_type = 'Lock'
        and wait_event = coalesce(${kind ?? null}, wait_event)`.execute(db);
    pid = rows[0]?.pid;
    return pid !== undefined;
  });
  if (pid === undefined) throw new Error('No connection is blocked');
  return pid;
}

/** Counts the connections that wait for a lock. */
export async function countBlocked(db: Kysely<Tables>): Promise<number> {
  const { rows } = await sql<{ count: number }>`
    select count(*)::int as count from pg_stat_activity
    where datname = current_database() and wait_event_type = 'Lock'`.execute(db);
  return rows[0]?.count ?? 0;
}

/** An assistant in a separate process. */
export type AssistantProcess = { url: string; kill(): Promise<void> };

/** Starts an assistant in a separate process on the test file's PostgreSQL database. */
export async function startProcess(
  { databaseUrl, settings }: TestAssistant,
  overrides: Record<string, string> = {},
): Promise<AssistantProcess> {
  if (databaseUrl === undefined) throw new Error('PGlite accepts no other process');
  const { waitForMessage, kill } = start([join(import.meta.dirname, 'assistant-process.ts')], {
    env: {
      DATABASE_URL: databaseUrl,
      ASSISTANT_PORT: '0',
      LOG_LEVEL: 'warn',
      ...settings(overrides),
    },
  });
  return { url: String(await waitForMessage()), kill: () => kill() };
}

/** The URL of one of several assistants that share a database. */
export type Replica = { url: string };

/** Starts assistants that share a database: separate processes on PostgreSQL, instances of this process on PGlite. */
export function startReplicas(
  assistant: TestAssistant,
  count: number,
  overrides: Record<string, string> = {},
): Promise<Replica[]> {
  return Promise.all(
    Array.from({ length: count }, async () => {
      if (assistant.databaseUrl !== undefined) return startProcess(assistant, overrides);
      const app = await assistant.createInstance(overrides);
      return { url: await app.listen({ host: '127.0.0.1', port: 0 }) };
    }),
  );
}

export type SentRequest = {
  path: string;
  method?: 'GET' | 'POST';
  headers?: Record<string, string>;
  body?: string;
};

/** Sends a request with a browser's cookies. It changes no cookie and follows no redirect. */
export async function send(
  { url }: Replica,
  { cookies }: Pick<Browser, 'cookies'>,
  { path, headers = {}, ...options }: SentRequest,
) {
  const cookie = [...cookies].map(([name, value]) => `${name}=${value}`).join('; ');
  const response = await fetch(url + path, {
    ...options,
    headers: { ...headers, ...(cookie !== '' && { cookie }) },
    redirect: 'manual',
  });
  return { status: response.status, headers: response.headers, body: await response.text() };
}
