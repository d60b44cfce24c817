import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { openAsBlob } from 'node:fs';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { connect, type Database, DatabaseError, type MigrateOptions } from '@oselya/db';
import type { Kysely, KyselyPlugin, QueryId, QueryResult } from 'kysely';
import { deferCleanup } from './flow.ts';
import { createImageFile, EMPTY_DATABASE } from './pglite-images.ts';
import { createDatabase } from './postgres-databases.ts';

export { fillDataFolder } from './pglite-images.ts';

/** Database for a single test file. */
export type TestDatabase<Schema> = Database<Schema> & {
  /** URL for other processes. Undefined on PGlite, which other processes cannot use. */
  url: string | undefined;
};

/**
 * Opens a database for one test file: PGlite in memory, or a new database on the server of `TEST_DATABASE_URL`. It is
 * closed after the tests of the file, which fail if a connection is still in use.
 */
export async function openTestDatabase<Schema>(
  migrations: readonly MigrateOptions[] = [],
): Promise<TestDatabase<Schema>> {
  const server = process.env['TEST_DATABASE_URL'];
  const state = await hashState(migrations);
  const createdDatabase =
    server === undefined ? undefined : await createDatabase(server, { state, migrations });
  const image =
    server === undefined
      ? await openAsBlob(await createImageFile({ state, migrations }))
      : undefined;
  const database = await connect<Schema>({ url: createdDatabase?.url, image }).catch(
    async (error: unknown) => {
      await createdDatabase?.drop();
      throw error;
    },
  );
  const resources = new AsyncDisposableStack();
  resources.defer(async () => {
    const usedConnections = database.pool.totalCount - database.pool.idleCount;
    await database.close();
    await createdDatabase?.drop();
    if (usedConnections > 0)
      throw new Error(`The tests left ${usedConnections} connections checked out of the pool`);
  });
  const close = () => resources.disposeAsync();
  deferCleanup(close);
  return { ...database, url: createdDatabase?.url, close };
}

/** Returns a name for the migrated state, which changes when a migration file or a variable changes. */
async function hashState(migrations: readonly MigrateOptions[]): Promise<string> {
  const state = createHash('sha256').update(EMPTY_DATABASE.state);
  for (const { component, folder, variables = {} } of migrations) {
    const names = (await readdir(folder)).filter((name) => name.endsWith('.sql')).toSorted();
    const texts = await Promise.all(names.map((name) => readFile(join(folder, name), 'utf8')));
    state.update(JSON.stringify([component, variables, names, texts]));
  }
  return state.digest('hex').slice(0, 16);
}

const TERMINATE_SCRIPT = `
  import pg from 'pg';
  const client = new pg.Client({ connectionString: process.env.DATABASE_URL });
  await client.connect();
  await client.query(\`
    select pg_terminate_backend(pid, 5000) from pg_stat_activity
    where datname = current_database() and pid <> pg_backend_pid() and backend_type = 'client backend'\`);
  await client.end();`;

/**
 * Terminates all connections to a database, like a server restart. Blocks this process meanwhile, so its clients notice
 * the loss only at their next query.
 */
export function cutConnections(url: string): void {
  execFileSync(process.execPath, ['--input-type=module', '--eval', TERMINATE_SCRIPT], {
    cwd: import.meta.dirname,
    env: { ...process.env, DATABASE_URL: url },
  });
}

/** Hooks that run before and after each statement, with its syntax tree as JSON. If a hook throws, the call fails. */
type StatementHooks = {
  before?: (text: string) => void;
  /** Runs after the statement. The result is returned when the hook ends. */
  after?: (text: string, result: QueryResult<unknown>) => Promise<void> | void;
};

/** Wraps a database with hooks that observe, delay or fail statements. */
export function watchDatabase<Schema>(db: Kysely<Schema>, hooks: StatementHooks): Kysely<Schema> {
  const texts = new WeakMap<QueryId, string>();
  const plugin: KyselyPlugin = {
    transformQuery({ node, queryId }) {
      const text = JSON.stringify(node);
      texts.set(queryId, text);
      hooks.before?.(text);
      return node;
    },
    async transformResult({ queryId, result }) {
      await hooks.after?.(texts.get(queryId) ?? '', result);
      return result;
    },
  };
  return db.withPlugin(plugin);
}

/** Simulated connection loss. */
type Loss = {
  /** Part of the syntax tree of the statement, as JSON. */
  statement: string;
  /** Whether the connection is lost before or after the server executes the statement. */
  when: 'before' | 'after';
  times: number;
};

/** Creates a database that loses its connection at the statements that a test selects with `lose`. */
export function createLossyDatabase<Schema>(db: Kysely<Schema>) {
  const losses: Loss[] = [];
  const createLossHook = (when: Loss['when']) => (text: string) => {
    const loss = losses.find(
      (candidate) =>
        candidate.when === when && candidate.times > 0 && text.includes(candidate.statement),
    );
    if (loss === undefined) return;
    loss.times -= 1;
    throw createOutageError();
  };
  return {
    db: watchDatabase(db, { before: createLossHook('before'), after: createLossHook('after') }),
    lose: (loss: Loss) => void losses.push(loss),
    /** Returns whether all losses have happened. */
    isOver: () => losses.every(({ times }) => times === 0),
  };
}

/** Creates the error for an unreachable database. */
export function createOutageError(): DatabaseError {
  return new DatabaseError('DATABASE_UNREACHABLE', 'The database does not respond (a test)');
}
