import { setTimeout as sleep } from 'node:timers/promises';
import type pg from 'pg';
import { applyAtOnce, applyConcurrently } from './apply-migration.ts';
import { DatabaseError } from './errors.ts';
import { type Migration, readMigrations } from './migration-files.ts';

/** The migrations of a component. */
export type MigrateOptions = {
  /** Owner of the migrations; several components may share a database. */
  component: string;
  /** Folder with files `0001_what_it_does.sql` and `0002_what_it_builds.concurrently.sql`. */
  folder: string;
  /** Values for `{{name}}` in the files, where SQL takes no parameter. */
  variables?: Readonly<Record<string, number>>;
  /** How long a file waits for a locked table before it lets others go first; 5 s by default. */
  lockTimeoutMs?: number;
};

/** Result of a run: `applied` has the names of the files that were missing, in order. */
export type MigrationResult = { component: string; applied: string[] };

/** The same number in every process: "osel" in ASCII. */
const LOCK_KEY = 0x6f73656c;

/** How often a process that waits for another one's migrations tries the lock. */
const LOCK_POLL_MS = 200;

const LOCK_TIMEOUT_MS = 5000;

/**
 * Applies the missing migrations of one component under an advisory lock, so that of processes that start together one
 * does. Each file runs in its own transaction, which also records it; files named `.concurrently.sql` run outside of one,
 * to build indexes without locks. The next start continues an interrupted run. An applied file must not change.
 * @throws DatabaseError MIGRATION_FAILED with the file's name; the files before it stay applied.
 */
export async function migrate(
  { pool }: { pool: pg.Pool },
  { component, folder, variables = {}, lockTimeoutMs = LOCK_TIMEOUT_MS }: MigrateOptions,
): Promise<MigrationResult> {
  const migrations = await readMigrations(folder, variables);
  const client = await pool.connect();
  let failure: unknown;
  client.on('error', ignore);
  try {
    await acquireLock(client);
    const missing = await findMissing(client, component, migrations);
    for (const migration of missing) {
      if (migration.concurrently) await applyConcurrently(client, component, migration);
      else await applyAtOnce(client, component, migration, lockTimeoutMs);
    }
    return { component, applied: missing.map(({ name }) => name) };
  } catch (error) {
    failure = error;
    throw error;
  } finally {
    // A broken connection has released the lock already.
    await client.query(`select pg_advisory_unlock(${LOCK_KEY})`).catch(ignore);
    client.removeListener('error', ignore);
    client.release(failure instanceof Error);
  }
}

/** A broken connection fails its query; an unhandled 'error' event would crash the process as well. */
function ignore(): void {}

/**
 * Acquires the session's advisory lock. It polls: a waiting statement and "create index concurrently" of the holder would
 * wait for each other. The server may hold the lock for a killed process while it still builds an index.
 */
async function acquireLock(client: pg.PoolClient): Promise<void> {
  for (;;) {
    const { rows } = await client.query<{ taken: boolean }>(
      `select pg_try_advisory_lock(${LOCK_KEY}) as taken`,
    );
    if (rows[0]?.taken === true) return;
    await sleep(LOCK_POLL_MS);
  }
}

async function findMissing(
  client: pg.PoolClient,
  component: string,
  migrations: readonly Migration[],
): Promise<Migration[]> {
  await client.query(
    `create table if not exists schema_migrations (
       component text not null,
       name text not null,
       checksum text not null,
       applied_at timestamptz not null default now(),
       primary key (component, name)
     )`,
  );
  const { rows } = await client.query<{ name: string; checksum: string }>(
    'select name, checksum from schema_migrations where component = $1',
    [component],
  );
  const known = new Map(rows.map((row) => [row.name, row.checksum]));
  return migrations.filter(({ name, checksum }) => {
    if (known.has(name) && known.get(name) !== checksum) {
      throw new DatabaseError(
        'MIGRATION_FAILED',
        `Migration ${component}/${name} was changed after it had been applied: restore the file and put the change into a new one`,
      );
    }
    return !known.has(name);
  });
}
