import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { DatabaseError, isDatabaseOutage, toOutageError } from './errors.ts';
import { type Migration, readMigrations, splitStatements } from './migration-files.ts';

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

const LOCK_POLL_MS = 200;
const LOCK_TIMEOUT_MS = 5000;

/** Maximum number of attempts to lock tables. By default they take ten minutes, pauses included. */
const MAX_LOCK_ATTEMPTS = 60;

const LOCK_NOT_AVAILABLE = '55P03';

/** Longest delay of a timer. node-postgres cannot disable the timeout of one query, and migrations may take long. */
const MAX_TIMER_MS = 2 ** 31 - 1;

/**
 * Applies the pending migrations of a component under an advisory lock, so only one of several starting processes runs
 * them. Each file runs and is recorded in a separate transaction. Files named `.concurrently.sql` run without a
 * transaction, to build indexes without blocking writes. An interrupted run resumes at the next start. Applied files
 * must not change.
 * @throws DatabaseError MIGRATION_FAILED with the name of the file. Files before it remain applied. Errors of the
 *   connection outside of a file pass through.
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
    const pendingMigrations = await findPendingMigrations(client, component, migrations);
    for (const migration of pendingMigrations) {
      if (migration.isConcurrent) await applyConcurrently(client, component, migration);
      else await applyInTransaction(client, component, migration, lockTimeoutMs);
    }
    return { component, applied: pendingMigrations.map(({ name }) => name) };
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
 * concurrently" in another process. The wait has no limit, because the server may keep the lock of a killed process
 * until an index is built.
 */
async function acquireLock(client: pg.PoolClient): Promise<void> {
  for (;;) {
    const { rows } = await client.query<{ isAcquired: boolean }>(
      `select pg_try_advisory_lock(${LOCK_KEY}) as "isAcquired"`,
    );
    if (rows[0]?.isAcquired === true) return;
    await sleep(LOCK_POLL_MS);
  }
}

async function findPendingMigrations(
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
  const appliedChecksums = new Map(rows.map((row) => [row.name, row.checksum]));
  return migrations.filter(({ name, checksum }) => {
    if (appliedChecksums.has(name) && appliedChecksums.get(name) !== checksum) {
      throw new DatabaseError(
        'MIGRATION_FAILED',
        `Migration ${component}/${name} was changed after it was applied: restore the file, and put the change into a new file`,
      );
    }
    return !appliedChecksums.has(name);
  });
}

/** Applies a file in a transaction. A pending lock blocks all later ones, so each attempt waits only briefly. */
async function applyInTransaction(
  client: pg.PoolClient,
  component: string,
  migration: Migration,
  lockTimeoutMs: number,
): Promise<void> {
  for (let attempt = 1; ; attempt += 1) {
    let isCommitting = false;
    try {
      await client.query(`begin;
        set local lock_timeout = ${lockTimeoutMs};
        set local statement_timeout = 0`);
      await client.query(createUntimedQuery(migration.sql));
      await recordMigration(client, component, migration);
      isCommitting = true;
      await client.query('commit');
      return;
    } catch (error) {
      await client.query('rollback').catch(() => undefined);
      const isLocked = error instanceof pg.DatabaseError && error.code === LOCK_NOT_AVAILABLE;
      if (!isLocked || attempt === MAX_LOCK_ATTEMPTS) {
        // If the connection breaks during the commit, the commit may have succeeded.
        const isUncertain = isCommitting && isDatabaseOutage(toOutageError(error));
        const outcome = isUncertain
          ? 'may have failed; the next start checks this'
          : 'failed and changed nothing';
        throw createMigrationError(component, migration, outcome, error);
      }
      await sleep(lockTimeoutMs);
    }
  }
}

/** Applies a file statement by statement. Drops each invalid index of an interrupted build before building it again. */
async function applyConcurrently(
  client: pg.PoolClient,
  component: string,
  migration: Migration,
): Promise<void> {
  try {
    await client.query('set statement_timeout = 0');
    for (const { statement, indexName } of splitStatements(migration.sql)) {
      if (indexName !== undefined && (await isIndexInvalid(client, indexName))) {
        const name = pg.escapeIdentifier(indexName);
        await client.query(createUntimedQuery(`drop index concurrently if exists ${name}`));
      }
      await client.query(createUntimedQuery(statement));
    }
    await recordMigration(client, component, migration);
  } catch (error) {
    const outcome = 'failed; the next start continues it';
    throw createMigrationError(component, migration, outcome, error);
  } finally {
    await client.query('reset statement_timeout').catch(() => undefined);
  }
}

async function isIndexInvalid(client: pg.PoolClient, index: string): Promise<boolean> {
  const { rows } = await client.query(
    'select from pg_index where indexrelid = to_regclass($1) and not indisvalid',
    [index],
  );
  return rows.length > 0;
}

async function recordMigration(
  client: pg.PoolClient,
  component: string,
  { name, checksum }: Migration,
): Promise<void> {
  await client.query(
    'insert into schema_migrations (component, name, checksum) values ($1, $2, $3)',
    [component, name, checksum],
  );
}

function createUntimedQuery(text: string): pg.QueryConfig & { query_timeout: number } {
  return { text, query_timeout: MAX_TIMER_MS };
}

function createMigrationError(
  component: string,
  { name }: Migration,
  outcome: string,
  cause: unknown,
): DatabaseError {
  const reason = cause instanceof Error ? cause.message : String(cause);
  const message = `Migration ${component}/${name} ${outcome}: ${reason}`;
  return new DatabaseError('MIGRATION_FAILED', message, { cause });
}
