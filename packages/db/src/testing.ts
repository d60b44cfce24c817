import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { existsSync, openAsBlob } from 'node:fs';
import { mkdir, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { PGlite } from '@electric-sql/pglite';
import pg from 'pg';
import manifest from '../package.json' with { type: 'json' };
import { connect } from './connect.ts';
import type { Database } from './database.ts';
import { migrate, type MigrateOptions } from './migrate.ts';

const CACHE = join(import.meta.dirname, '../../../node_modules/.cache/empty-databases');

export type TestDatabase<Schema> = Database<Schema> & {
  /** The address for further processes; undefined on PGlite, which no other process can reach. */
  url: string | undefined;
};

const opened = new AsyncDisposableStack();
after(() => opened.disposeAsync());

/**
 * Calls a function when the tests of the file have ended: the last one given first, so that what uses a
 * database ends before the database goes, and each of them even when another fails. (Hooks of Node's runner
 * are called in the order of their registration, and none after one that failed.)
 */
export function atEnd(work: () => Promise<void> | void): void {
  opened.defer(work);
}

/**
 * A database for one test file: PGlite in memory, or a new one on the server of `TEST_DATABASE_URL`.
 * It goes when the file's tests have ended, which fail if they left a connection in use.
 */
export async function openTestDatabase<Schema>(
  migrations: MigrateOptions[] = [],
): Promise<TestDatabase<Schema>> {
  const server = process.env['TEST_DATABASE_URL'];
  const created = server === undefined ? undefined : await createDatabase(server);
  const image = created === undefined ? await openAsBlob(await emptyImage()) : undefined;
  const database = await connect<Schema>({ url: created?.url, image }).catch(
    async (error: unknown) => {
      await created?.drop();
      throw error;
    },
  );
  const close = once(async () => {
    const inUse = database.pool.totalCount - database.pool.idleCount;
    await database.close();
    await created?.drop();
    if (inUse > 0) throw new Error(`The tests left ${inUse} connections checked out of the pool`);
  });
  atEnd(close);
  for (const options of migrations) await migrate(database, options);
  return { ...database, url: created?.url, close };
}

/**
 * Puts an empty embedded database into a new data folder, so that the process that is started on it need
 * not make one.
 */
export async function fillDataFolder(dataDir: string): Promise<void> {
  const folder = join(dataDir, 'database');
  await mkdir(folder, { recursive: true });
  await promisify(execFile)('tar', ['-xf', await emptyImage(), '-C', folder]);
}

/** The file of a new embedded database. To make one takes four times as long as to load it, so it is kept. */
async function emptyImage(): Promise<string> {
  const file = join(CACHE, `pglite-${manifest.dependencies['@electric-sql/pglite']}.tar`);
  if (!existsSync(file)) {
    const lite = await PGlite.create();
    const image = await lite.dumpDataDir('none');
    await lite.close();
    // Another process may do the same: whoever reads finds a whole file or none.
    const part = `${file}.${process.pid}`;
    await mkdir(CACHE, { recursive: true });
    await writeFile(part, Buffer.from(await image.arrayBuffer()));
    await rename(part, file);
  }
  return file;
}

async function createDatabase(server: string): Promise<{ url: string; drop(): Promise<void> }> {
  const name = `oselya_test_${randomBytes(6).toString('hex')}`;
  await administer(server, (client) => client.query(`create database ${name}`));
  const url = new URL(server);
  url.pathname = `/${name}`;
  return {
    url: url.href,
    drop: () =>
      administer(server, async (client) => {
        const left = await connectionsLeft(client, name);
        // An autovacuum worker may be in it. Without `force` the server asks it to leave; with it, the server
        // refuses to end what belongs to a superuser.
        await client.query(`drop database ${name} ${left > 0 ? 'with (force)' : ''}`);
        if (left > 0) throw new Error(`The tests left ${left} connections to the server open`);
      }),
  };
}

/** A closed connection leaves the server's list a moment later, hence the bounded wait. */
async function connectionsLeft(client: pg.Client, name: string): Promise<number> {
  for (let tries = 0; ; tries += 1) {
    const { rows } = await client.query<{ n: number }>(
      'select count(*)::int as n from pg_stat_activity where datname = $1 and backend_type = $2',
      [name, 'client backend'],
    );
    const left = rows[0]?.n ?? 0;
    if (left === 0 || tries === 50) return left;
    await sleep(100);
  }
}

async function administer(
  server: string,
  work: (client: pg.Client) => Promise<unknown>,
): Promise<void> {
  const client = new pg.Client({ connectionString: server });
  await client.connect();
  try {
    await work(client);
  } finally {
    await client.end();
  }
}

function once(work: () => Promise<void>): () => Promise<void> {
  let done: Promise<void> | undefined;
  return () => (done ??= work());
}
