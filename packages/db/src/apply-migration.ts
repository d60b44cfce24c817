import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { toOutageError, DatabaseError, isDatabaseOutage } from './errors.ts';
import { type Migration, readSteps } from './migration-files.ts';

/** Maximum number of attempts to lock tables. By default they take ten minutes, pauses included. */
const MAX_LOCK_ATTEMPTS = 60;

/** PostgreSQL's lock_not_available. */
const LOCK_NOT_AVAILABLE = '55P03';

/** Longest delay of a timer. node-postgres cannot disable the timeout of one query, and migrations may take long. */
const NO_TIMEOUT_MS = 2 ** 31 - 1;

/**
 * Applies a file in one transaction. A pending lock blocks all later ones, so each attempt waits for locks only briefly
 * and is repeated after a pause.
 * @throws DatabaseError MIGRATION_FAILED. The transaction was rolled back, unless the message says otherwise.
 */
export async function applyInTransaction(
  client: pg.PoolClient,
  component: string,
  migration: Migration,
  lockTimeoutMs: number,
): Promise<void> {
  for (let tries = 1; ; tries += 1) {
    let isCommitting = false;
    try {
      await client.query('begin');
      await client.query(`set local lock_timeout = ${lockTimeoutMs}`);
      await client.query('set local statement_timeout = 0');
      await client.query(withoutTimeout(migration.sql));
      await record(client, component, migration);
      isCommitting = true;
      await client.query('commit');
      return;
    } catch (error) {
      await client.query('rollback').catch(() => undefined);
      if (!isLockTimeout(error) || tries === MAX_LOCK_ATTEMPTS) {
        // If the connection breaks during the commit, the commit may have succeeded.
        const what =
          isCommitting && isDatabaseOutage(toOutageError(error))
            ? 'may have failed, and the next start finds out'
            : 'failed and changed nothing';
        throw createMigrationError(component, migration, what, error);
      }
      await sleep(lockTimeoutMs);
    }
  }
}

/**
 * Applies a file statement by statement, without a transaction. First drops an index that an interrupted build left
 * invalid.
 * @throws DatabaseError MIGRATION_FAILED. Statements before the failed one remain applied.
 */
export async function applyConcurrently(
  client: pg.PoolClient,
  component: string,
  migration: Migration,
): Promise<void> {
  try {
    await client.query('set statement_timeout = 0');
    for (const { statement, builds } of readSteps(migration.sql)) {
      if (builds !== undefined && (await isInvalid(client, builds))) {
        const name = pg.escapeIdentifier(builds);
        await client.query(withoutTimeout(`drop index concurrently if exists ${name}`));
      }
      await client.query(withoutTimeout(statement));
    }
    await record(client, component, migration);
  } catch (error) {
    throw createMigrationError(
      component,
      migration,
      'failed, and the next start goes on with it',
      error,
    );
  } finally {
    await client.query('reset statement_timeout').catch(() => undefined);
  }
}

async function isInvalid(client: pg.PoolClient, index: string): Promise<boolean> {
  const { rows } = await client.query<{ is_invalid: boolean }>(
    'select not indisvalid as is_invalid from pg_index where indexrelid = to_regclass($1)',
    [index],
  );
  return rows[0]?.is_invalid === true;
}

async function record(
  client: pg.PoolClient,
  component: string,
  { name, checksum }: Migration,
): Promise<void> {
  await client.query(
    'insert into schema_migrations (component, name, checksum) values ($1, $2, $3)',
    [component, name, checksum],
  );
}

function withoutTimeout(text: string): pg.QueryConfig & { query_timeout: number } {
  return { text, query_timeout: NO_TIMEOUT_MS };
}

function isLockTimeout(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === LOCK_NOT_AVAILABLE;
}

function createMigrationError(
  component: string,
  { name }: Migration,
  what: string,
  cause: unknown,
): DatabaseError {
  const reason = cause instanceof Error ? cause.message : String(cause);
  return new DatabaseError(
    'MIGRATION_FAILED',
    `Migration ${component}/${name} ${what}: ${reason}`,
    {
      cause,
    },
  );
}
