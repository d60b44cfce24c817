import { setTimeout as sleep } from 'node:timers/promises';
import type pg from 'pg';
import { applyAtOnce, applyConcurrently } from './apply-migration.ts';
import { DatabaseError } from './errors.ts';
import { type Migration, readMigrations } from './migration-files.ts';

/** The migrations of a component, and what their files need. */
export type MigrateOptions = {
  /** Whose migrations these are; several components may share a database. */
  component: string;
  /** Folder with files `0001_what_it_does.sql` and `0002_what_it_builds.concurrently.sql`. */
  folder: string;
  /** Values for `{{name}}` in the files, for what SQL cannot take as a parameter. */
  variables?: Readonly<Record<string, number>>;
  /** How long a file waits for a table that somebody holds, before it lets others go first; 5 s unless told. */
  lockTimeoutMs?: number;
};

/** What a run has done: `applied` has the names of files that were missing, in their order. */
export type MigrationResult = { component: string; applied: string[] };

/** Any number will do, as long as every process takes the same one: "osel" in ASCII. */
const LOCK_KEY = 0x6f73656c;

/** How often a process that waits for another one's migrations asks whether they are done. */
const LOCK_POLL_MS = 200;

const LOCK_TIMEOUT_MS = 5000;

/**
 * Brings the tables of one component up to date under an advisory lock, so that processes starting
 * together wait for the first and then find nothing to do. Each file is applied in a transaction of its
 * own, which also records it; a file whose name ends with `.concurrently.sql` outside of one, so that it
 * can build indexes while others read and write. Whatever is interrupted, the next start goes on with.
 * Files are forward only: an applied file must not change.
 * @throws DatabaseError MIGRATION_FAILED, naming the file. Those before it stay applied.
 */
export async function migrate(
  { pool }: { pool: pg.Pool },
  { component, folder, variables = {}, lockTimeoutMs = LOCK_TIMEOUT_MS }: MigrateOptions,
): Promise<MigrationResult> {
  const migrations = await readMigrations(folder, variables);
  const client = await pool.connect();
  let failure: unknown;
  client.on('error', heard);
  try {
    await takeLock(client);
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
    // A connection that broke has given the lock back by that.
    await client.query(`select pg_advisory_unlock(${LOCK_KEY})`).catch(heard);
    client.removeListener('error', heard);
    client.release(failure instanceof Error);
  }
}

/** A connection that breaks fails the query in progress; its event, unheard, would end the process. */
function heard(): void {}

/**
 * Waits until no other process migrates. The lock is the session's: while the server still builds an
 * index for a process that was killed, it is not free. It is asked for again and again, since a
 * statement that waits for it would be waited for by "create index concurrently", each for the other.
 */
async function takeLock(client: pg.PoolClient): Promise<void> {
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
