import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { DatabaseError, isDatabaseOutage } from './errors.ts';
import { asOutage } from './kysely-pool.ts';
import type { Migration } from './migration-files.ts';
import { readSteps } from './migration-steps.ts';

/** How often a file asks for its tables: ten minutes, with a pause as long as each wait. */
const LOCK_TRIES = 60;

/** PostgreSQL's code of an error for a lock that was not given in its time. */
const LOCK_NOT_AVAILABLE = '55P03';

/**
 * The longest that a timer takes, since node-postgres knows no "never" for one query: a migration of
 * large tables takes its time.
 */
const UNHURRIED_MS = 2 ** 31 - 1;

/**
 * Applies a file in one transaction. Who waits for a table keeps all others from it that come later, so a
 * file waits shortly, such as for a backup that reads the table, then lets them go first and asks again.
 * @throws DatabaseError MIGRATION_FAILED; then the file has changed nothing, unless it says that this is not known.
 */
export async function applyAtOnce(
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
      await client.query(unhurried(migration.sql));
      await record(client, component, migration);
      isCommitting = true;
      await client.query('commit');
      return;
    } catch (error) {
      await client.query('rollback').catch(() => undefined);
      if (!isLockTimeout(error) || tries === LOCK_TRIES) {
        // A connection that breaks there may have brought the commit, and not its answer.
        const what =
          isCommitting && isDatabaseOutage(asOutage(error))
            ? 'may have failed, and the next start finds out'
            : 'failed and changed nothing';
        throw failed(component, migration, what, error);
      }
      await sleep(lockTimeoutMs);
    }
  }
}

/**
 * Applies a file statement by statement, each of which may be repeated. An index whose building was
 * interrupted is there and of no use, so it is dropped first.
 * @throws DatabaseError MIGRATION_FAILED; the statements before the one that failed stay done.
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
        await client.query(unhurried(`drop index concurrently if exists ${name}`));
      }
      await client.query(unhurried(statement));
    }
    await record(client, component, migration);
  } catch (error) {
    throw failed(component, migration, 'failed, and the next start goes on with it', error);
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

function unhurried(text: string): pg.QueryConfig & { query_timeout: number } {
  return { text, query_timeout: UNHURRIED_MS };
}

function isLockTimeout(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === LOCK_NOT_AVAILABLE;
}

function failed(
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
