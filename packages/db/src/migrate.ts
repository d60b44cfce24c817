import { setTimeout as sleep } from 'node:timers/promises';
import type pg from 'pg';
import { applyInTransaction, applyConcurrently } from './apply-migration.ts';
import { DatabaseError } from './errors.ts';
import { type Migration, readMigrations } from './migration-files.ts';

/** Migrations of a component. */
export type MigrateOptions = {
  /** Owner of the migrations. Several components can share a database. */
  component: string;
  /** Folder with files such as `0001_add_users.sql` and `0002_index_users.concurrently.sql`. */
  folder: string;
  /** Values that replace `{{name}}` in the files, because DDL does not support parameters. */
  variables?: Readonly<Record<string, number>>;
  /** Time limit for acquiring a table lock in each attempt. 5 s by default. */
  lockTimeoutMs?: number;
};

/** Result of a migration run. `applied` lists the names of the applied files, in order. */
export type MigrationResult = { component: string; applied: string[] };

/** Key of the advisory lock: "osel" in ASCII. */
const LOCK_KEY = 0x6f73656c;

/** Interval for polling the lock while another process runs migrations. */
const LOCK_POLL_MS = 200;

const LOCK_TIMEOUT_MS = 5000;

/**
 * Applies the pending migrations of a component under an advisory lock, so that only one of several starting processes
 * runs them. Each file runs and is recorded in its own transaction. Files named `.concurrently.sql` run without a
 * transaction, to build indexes without locks. An interrupted run continues at the next start. Applied files must not
 * change.
 * @throws DatabaseError MIGRATION_FAILED with the name of the file. Files before it remain applied.
 */
export async function migrate(
  { pool }: { pool: pg.Pool },
  { component, folder, variables = {}, lockTimeoutMs = LOCK_TIMEOUT_MS }: MigrateOptions,
): Promise<MigrationResult> {
  const migrations = await readMigrations(folder, variables);
  const client = await pool.connect();
  let failure: unknown;
  client.on('error', ignoreError);
  try {
    await acquireLock(client);
    const missing = await findMissing(client, component, migrations);
    for (const migration of missing) {
      if (migration.concurrently) await applyConcurrently(client, component, migration);
      else await applyInTransaction(client, component, migration, lockTimeoutMs);
    }
    return { component, applied: missing.map(({ name }) => name) };
  } catch (error) {
    failure = error;
    throw error;
  } finally {
    // Errors are ignored, because a broken connection has already released the lock.
    await client.query(`select pg_advisory_unlock(${LOCK_KEY})`).catch(ignoreError);
    client.removeListener('error', ignoreError);
    client.release(failure instanceof Error);
  }
}

/** Ignores 'error' events. The pending query also fails, and an unhandled event would crash the process. */
function ignoreError(): void {}

/**
 * Acquires the advisory lock for the session by polling. A blocking statement would deadlock with "create index
 * concurrently" in another process. After a process is killed, the server may keep its lock until an index is built.
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
