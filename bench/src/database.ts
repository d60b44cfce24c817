import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { promisify } from 'node:util';
import pg from 'pg';
import { BenchError } from './bench-error.ts';

/** A PostgreSQL server that databases can be made on. */
export type DatabaseServer = {
  /** Its version, and the settings that matter most: `17.6 (shared_buffers 4GB, huge pages on)`. */
  description: string;
  /** Makes an empty database; leaving the scope that uses it drops it. */
  createDatabase(): Promise<{ url: string } & AsyncDisposable>;
  /** Copies a database without connections; the end of the scope drops the copy. */
  copyDatabase(url: string): Promise<{ url: string } & AsyncDisposable>;
  /** Finds a database that stays when the run has ended, or makes an empty one. */
  keepDatabase(name: string): Promise<{ url: string }>;
};

/** Servers before PostgreSQL 17 do not say whether they have huge pages. */
const DESCRIPTION = `select format('%s (shared_buffers %s, huge pages %s)',
  split_part(current_setting('server_version'), ' ', 1), current_setting('shared_buffers'),
  coalesce(current_setting('huge_pages_status', true), 'unknown'))`;

const SCRIPT = new URL('../../scripts/postgres', import.meta.url).pathname;

/**
 * The server of DATABASE_URL or TEST_DATABASE_URL, or else the one that `scripts/postgres` runs.
 * @throws BenchError where there is none.
 */
export async function findDatabaseServer(env: NodeJS.ProcessEnv): Promise<DatabaseServer> {
  const address = env['DATABASE_URL'] || env['TEST_DATABASE_URL'] || (await ownServer());
  const urlOf = (name: string): string => Object.assign(new URL(address), { pathname: name }).href;
  return {
    description: await ask(address, DESCRIPTION),
    async keepDatabase(name) {
      const known = await ask(
        address,
        `select count(*) from pg_database where datname = '${name}'`,
      );
      if (known === '0') await ask(address, `create database ${name}`);
      return { url: urlOf(name) };
    },
    createDatabase: () => create(''),
    // Page by page through the log, as databases are made by default, a large copy takes many times as long.
    copyDatabase: (url) => create(` template ${new URL(url).pathname.slice(1)} strategy file_copy`),
  };

  async function create(options: string): Promise<{ url: string } & AsyncDisposable> {
    const name = `oselya_bench_${randomBytes(6).toString('hex')}`;
    await ask(address, `create database ${name}${options}`);
    return {
      url: urlOf(name),
      [Symbol.asyncDispose]: async () => {
        // Only a superuser may force a vacuum in progress away, but without force it ends by itself.
        await ask(address, `drop database ${name} with (force)`).catch(() =>
          ask(address, `drop database ${name}`),
        );
      },
    };
  }
}

async function ownServer(): Promise<string> {
  try {
    return (await promisify(execFile)(SCRIPT, ['url'])).stdout.trim();
  } catch (error) {
    throw new BenchError(
      'PostgreSQL is needed: start it with scripts/postgres start, or set DATABASE_URL',
      { cause: error },
    );
  }
}

/** Returns the first value of one statement on a separate connection. */
async function ask(address: string, statement: string): Promise<string> {
  const client = new pg.Client({ connectionString: address, connectionTimeoutMillis: 10_000 });
  try {
    await client.connect();
    const { rows } = await client.query<string[]>({ text: statement, rowMode: 'array' });
    return String(rows[0]?.[0]).replace(/ .*/, '');
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new BenchError(`PostgreSQL refused (${reason}): check DATABASE_URL`, { cause: error });
  } finally {
    await client.end();
  }
}
