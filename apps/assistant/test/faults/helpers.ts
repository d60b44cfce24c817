import { join } from 'node:path';
import { deferCleanup, startProcess as start, until } from '@oselya/testing';
import { type Kysely, type RawBuilder, sql } from 'kysely';
import pg from 'pg';
import type { Tables } from '../../src/tables.ts';
import type { Browser, TestAssistant } from '../helpers/assistant.ts';

/**
 * Returns functions to interrupt and restore a database. From `interrupt` until `restore`, it has no connections and
 * rejects new ones, as during a restart.
 */
export async function interruptDatabase(databaseUrl: string) {
  const name = new URL(databaseUrl).pathname.slice(1);
  const client = new pg.Client({ connectionString: process.env['TEST_DATABASE_URL'] });
  await client.connect();
  async function restore() {
    await client.query(`alter database ${name} allow_connections true`);
  }
  deferCleanup(async () => {
    await restore();
    await client.end();
  });
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
  };
}

/**
 * Holds the locks of a statement while `work` runs.
 * @param work Receives a function that waits until `count` connections (1 by default) wait for these locks, also behind
 * each other, and returns their process IDs.
 */
export async function withLock(
  db: Kysely<Tables>,
  lock: RawBuilder<unknown>,
  work: (waitUntilBlocked: (count?: number) => Promise<number[]>) => Promise<void>,
): Promise<void> {
  await db.transaction().execute(async (trx) => {
    const holder = await sql<{ pid: number }>`select pg_backend_pid() as pid`.execute(trx);
    await lock.execute(trx);
    await work(async (count = 1) => {
      let pids: number[] = [];
      await until(async () => (pids = await listBlocked(db, holder.rows[0]?.pid)).length >= count);
      return pids;
    });
  });
}

/** Lists the connections that wait behind one holder. Others may be background work that waits for different locks. */
async function listBlocked(db: Kysely<Tables>, holder: number | undefined): Promise<number[]> {
  const { rows } = await sql<{ pid: number }>`
    with recursive blocked(pid) as (
      values (${holder}::integer)
      union
      select activity.pid from pg_stat_activity activity
        join blocked on blocked.pid = any (pg_blocking_pids(activity.pid))
      where activity.wait_event_type = 'Lock'
    )
    select pid from blocked where pid <> ${holder}`.execute(db);
  return rows.map(({ pid }) => pid);
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

/** One of several assistants that share a database. */
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

/** Sends a request with a browser's cookies, without storing new cookies or following redirects. */
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
