import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { openAsBlob } from 'node:fs';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { connect, type Database, DatabaseError, type MigrateOptions } from '@oselya/db';
import type { Kysely, KyselyPlugin, QueryId, QueryResult } from 'kysely';
import manifest from '../package.json' with { type: 'json' };
import { atEnd } from './flow.ts';
import { imageFile } from './pglite-images.ts';
import { createDatabase } from './postgres-databases.ts';

export { fillDataFolder } from './pglite-images.ts';

/** A database that is one test file's alone. */
export type TestDatabase<Schema> = Database<Schema> & {
  /** Address for further processes; undefined on PGlite, which no other process can reach. */
  url: string | undefined;
};

/**
 * Opens a database for one test file: PGlite in memory, or a new one on the server of `TEST_DATABASE_URL`. It ends with
 * the file's tests, which fail if they left a connection in use.
 */
export async function openTestDatabase<Schema>(
  migrations: readonly MigrateOptions[] = [],
): Promise<TestDatabase<Schema>> {
  const server = process.env['TEST_DATABASE_URL'];
  const state = await nameOfState(migrations);
  const created =
    server === undefined ? undefined : await createDatabase(server, { state, migrations });
  const image =
    created === undefined ? await openAsBlob(await imageFile({ state, migrations })) : undefined;
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
  return { ...database, url: created?.url, close };
}

/** Names the state that migrations make of a new database: another name as soon as a file or variable changes. */
async function nameOfState(migrations: readonly MigrateOptions[]): Promise<string> {
  const state = createHash('sha256').update(manifest.dependencies['@electric-sql/pglite']);
  for (const { component, folder, variables = {} } of migrations) {
    const names = (await readdir(folder)).filter((name) => name.endsWith('.sql')).toSorted();
    const texts = await Promise.all(names.map((name) => readFile(join(folder, name), 'utf8')));
    state.update(JSON.stringify([component, variables, names, texts]));
  }
  return state.digest('hex').slice(0, 16);
}

function once(work: () => Promise<void>): () => Promise<void> {
  let done: Promise<void> | undefined;
  return () => (done ??= work());
}

const TERMINATE = `
  import pg from 'pg';
  const client = new pg.Client({ connectionString: process.env.DATABASE_URL });
  await client.connect();
  await client.query(\`
    select pg_terminate_backend(pid, 5000) from pg_stat_activity
    where datname = current_database() and pid <> pg_backend_pid() and backend_type = 'client backend'\`);
  await client.end();`;

/**
 * Ends all connections to a database, as a restart of its server does. It blocks this process until then, so that the
 * next query on each connection is the first to notice.
 */
export function cutConnections(url: string): void {
  execFileSync(process.execPath, ['--input-type=module', '--eval', TERMINATE], {
    cwd: import.meta.dirname,
    env: { ...process.env, DATABASE_URL: url },
  });
}

/** Called around each statement, with a text that contains the statement's. The statement fails with what they throw. */
export type Watch = {
  before?: (text: string) => void;
  /** After the statement has been carried out; its answer waits. */
  after?: (text: string, result: QueryResult<unknown>) => Promise<void> | void;
};

/** Returns a database whose statements a test watches, delays or fails. */
export function watchedDatabase<Schema>(db: Kysely<Schema>, watch: Watch): Kysely<Schema> {
  const texts = new WeakMap<QueryId, string>();
  const plugin: KyselyPlugin = {
    transformQuery({ node, queryId }) {
      const text = JSON.stringify(node);
      texts.set(queryId, text);
      watch.before?.(text);
      return node;
    },
    async transformResult({ queryId, result }) {
      await watch.after?.(texts.get(queryId) ?? '', result);
      return result;
    },
  };
  return db.withPlugin(plugin);
}

/** Statements over which the connection is lost. */
export type Loss = {
  /** A part of the statement's text. */
  statement: string;
  /** Whether the server does not get it, or carries it out and its answer is lost. */
  when: 'before' | 'after';
  times: number;
};

/** Returns a database that loses its connection over the statements that a test names. */
export function lossyDatabase<Schema>(db: Kysely<Schema>) {
  const losses: Loss[] = [];
  const lose = (when: Loss['when']) => (text: string) => {
    const loss = losses.find(
      (one) => one.when === when && one.times > 0 && text.includes(one.statement),
    );
    if (loss === undefined) return;
    loss.times -= 1;
    throw outage();
  };
  return {
    db: watchedDatabase(db, { before: lose('before'), after: lose('after') }),
    lose: (loss: Loss) => void losses.push(loss),
    /** Whether all losses have happened. */
    isOver: () => losses.every(({ times }) => times === 0),
  };
}

/** Returns the error of an unreachable database. */
export function outage(): DatabaseError {
  return new DatabaseError('DATABASE_UNREACHABLE', 'The database does not answer (a test)');
}
