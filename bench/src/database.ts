import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { promisify } from 'node:util';
import pg from 'pg';
import { BenchError } from './bench-error.ts';

/** PostgreSQL server on which databases can be created. */
export type DatabaseServer = {
  /** Version and main settings, such as `17.6 (shared_buffers 4GB, huge pages on)`. */
  description: string;
  /** Creates an empty database and drops it at the end of the scope. */
  createDatabase(): Promise<{ url: string } & AsyncDisposable>;
  /** Copies a database that has no open connections, and drops the copy at the end of the scope. */
  copyDatabase(url: string): Promise<{ url: string } & AsyncDisposable>;
  /** Returns a permanent database, which is created if it is missing. */
  keepDatabase(name: string): Promise<{ url: string }>;
};

// Servers before PostgreSQL 17 do not report huge pages.
const DESCRIPTION = `select format('%s (shared_buffers %s, huge pages %s)',
  split_part(current_setting('server_version'), ' ', 1), current_setting('shared_buffers'),
  coalesce(current_setting('huge_pages_status', true), 'unknown'))`;

const POSTGRES_SCRIPT = new URL('../../scripts/postgres', import.meta.url).pathname;

/**
 * Returns the server at DATABASE_URL or TEST_DATABASE_URL, or else the server started by `scripts/postgres`.
 * @throws BenchError if no server is found or it rejects the connection.
 */
export async function findDatabaseServer(env: NodeJS.ProcessEnv): Promise<DatabaseServer> {
  const address = env['DATABASE_URL'] || env['TEST_DATABASE_URL'] || (await readLocalServerUrl());
  const buildUrl = (name: string): string =>
    Object.assign(new URL(address), { pathname: name }).href;
  return {
    description: await runQuery(address, DESCRIPTION),
    async keepDatabase(name) {
      const count = await runQuery(
        address,
        `select count(*) from pg_database where datname = '${name}'`,
      );
      if (count === '0') await runQuery(address, `create database ${name}`);
      return { url: buildUrl(name) };
    },
    createDatabase: () => create(''),
    // The default strategy writes every page to the write-ahead log, which is many times slower for a large copy.
    copyDatabase: (url) => create(` template ${new URL(url).pathname.slice(1)} strategy file_copy`),
  };

  async function create(options: string): Promise<{ url: string } & AsyncDisposable> {
    const name = `oselya_bench_${randomBytes(6).toString('hex')}`;
    await runQuery(address, `create database ${name}${options}`);
    return {
      url: buildUrl(name),
      [Symbol.asyncDispose]: async () => {
        // With `force`, only a superuser may end a running autovacuum. The plain command ends it for any owner.
        await runQuery(address, `drop database ${name} with (force)`).catch(() =>
          runQuery(address, `drop database ${name}`),
        );
      },
    };
  }
}

async function readLocalServerUrl(): Promise<string> {
  try {
    return (await promisify(execFile)(POSTGRES_SCRIPT, ['url'])).stdout.trim();
  } catch (error) {
    throw new BenchError(
      'no PostgreSQL server is running: start one with scripts/postgres start, or set DATABASE_URL',
      { cause: error },
    );
  }
}

/** Runs a statement on a separate connection and returns the first value of its result. */
async function runQuery(address: string, statement: string): Promise<string> {
  const client = new pg.Client({ connectionString: address, connectionTimeoutMillis: 10_000 });
  try {
    await client.connect();
    const { rows } = await client.query<string[]>({ text: statement, rowMode: 'array' });
    return String(rows[0]?.[0]).replace(/ .*/, '');
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new BenchError(
      `PostgreSQL rejected a connection or statement (${reason}): check DATABASE_URL`,
      { cause: error },
    );
  } finally {
    await client.end();
  }
}
