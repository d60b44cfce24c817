import { createHash } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type pg from 'pg';
import { DatabaseError } from './errors.ts';

export type MigrateOptions = {
  /** Whose migrations these are; several components may share a database. */
  component: string;
  /** Folder with files `0001_what_it_does.sql`. */
  folder: string;
  /** Values for `{{name}}` in the files, for what SQL cannot take as a parameter. */
  variables?: Readonly<Record<string, number>>;
};

export type MigrationResult = { component: string; applied: string[] };

type Migration = { name: string; sql: string; checksum: string };

const FILE_NAME = /^\d{4}_[a-z0-9_]+\.sql$/;

/** Any number will do, as long as every process takes the same one: "osel" in ASCII. */
const LOCK_KEY = 0x6f73656c;

/**
 * The longest that a timer takes, since node-postgres knows no "never" for one query: a migration of
 * large tables takes its time, and so does the wait for another process's.
 */
const UNHURRIED_MS = 2 ** 31 - 1;

/**
 * Brings the tables of one component up to date, all files in one transaction under an advisory lock,
 * so that processes starting together wait for the first and then find nothing to do, and a file that
 * fails leaves the database as it was. Files are forward only: an applied file must not change.
 * @throws DatabaseError MIGRATION_FAILED, naming the file.
 */
export async function migrate(
  { pool }: { pool: pg.Pool },
  { component, folder, variables = {} }: MigrateOptions,
): Promise<MigrationResult> {
  const migrations = await readMigrations(folder, variables);
  const client = await pool.connect();
  let failure: unknown;
  client.on('error', heard);
  try {
    await client.query('begin');
    await client.query(unhurried(`select pg_advisory_xact_lock(${LOCK_KEY})`));
    const applied = await applyMissing(client, component, migrations);
    await client.query('commit');
    return { component, applied };
  } catch (error) {
    failure = error;
    await client.query('rollback').catch(() => undefined);
    throw error;
  } finally {
    client.removeListener('error', heard);
    client.release(failure instanceof Error);
  }
}

/** A connection that breaks fails the query in progress; its event, unheard, would end the process. */
function heard(): void {}

function unhurried(text: string): pg.QueryConfig & { query_timeout: number } {
  return { text, query_timeout: UNHURRIED_MS };
}

async function applyMissing(
  client: pg.PoolClient,
  component: string,
  migrations: Migration[],
): Promise<string[]> {
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
  const applied: string[] = [];
  for (const migration of migrations) {
    const checksum = known.get(migration.name);
    if (checksum === undefined) {
      await apply(client, component, migration);
      applied.push(migration.name);
    } else if (checksum !== migration.checksum) {
      throw new DatabaseError(
        'MIGRATION_FAILED',
        `Migration ${component}/${migration.name} was changed after it had been applied: restore the file and put the change into a new one`,
      );
    }
  }
  return applied;
}

async function apply(
  client: pg.PoolClient,
  component: string,
  migration: Migration,
): Promise<void> {
  try {
    await client.query(unhurried(migration.sql));
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new DatabaseError(
      'MIGRATION_FAILED',
      `Migration ${component}/${migration.name} failed and changed nothing: ${reason}`,
      { cause: error },
    );
  }
  await client.query(
    'insert into schema_migrations (component, name, checksum) values ($1, $2, $3)',
    [component, migration.name, migration.checksum],
  );
}

async function readMigrations(
  folder: string,
  variables: Readonly<Record<string, number>>,
): Promise<Migration[]> {
  const names = (await readdir(folder)).filter((name) => name.endsWith('.sql')).toSorted();
  return Promise.all(
    names.map(async (name) => {
      if (!FILE_NAME.test(name)) {
        throw new DatabaseError(
          'MIGRATION_FAILED',
          `${join(folder, name)} is not named like 0001_what_it_does.sql`,
        );
      }
      const text = await readFile(join(folder, name), 'utf8');
      // The checksum is of the file, not of its variables: those are settings.
      const checksum = createHash('sha256').update(text).digest('hex');
      return { name, checksum, sql: fill(text, name, variables) };
    }),
  );
}

function fill(text: string, file: string, variables: Readonly<Record<string, number>>): string {
  return text.replaceAll(/\{\{(\w+)\}\}/g, (_, name: string) => {
    const value = variables[name];
    if (value === undefined) {
      throw new DatabaseError('MIGRATION_FAILED', `${file} needs a value for {{${name}}}`);
    }
    return String(value);
  });
}
