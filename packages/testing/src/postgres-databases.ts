import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { connect, migrate, type MigrateOptions } from '@oselya/db';
import pg from 'pg';

/**
 * Creates a migrated database on a server.
 * @param server Server URL, with a database that is not changed.
 * @param options.state Name of the migrated state.
 */
export async function createDatabase(
  server: string,
  options: { state: string; migrations: readonly MigrateOptions[] },
): Promise<{ url: string; drop(): Promise<void> }> {
  const name = generateName();
  const template = await ensureTemplate(server, options);
  await withClient(server, async (client) => {
    await client.query(`create database ${name} template ${template}`);
    // Makes commits faster. Only a server crash loses committed rows, and tests
    // that crash a server start a separate one.
    await client.query(`alter database ${name} set synchronous_commit = off`);
  });
  return {
    url: createUrl(server, name),
    drop: () =>
      withClient(server, async (client) => {
        const connectionCount = await countConnections(client, name);
        // An autovacuum worker may use the database. Without `force`, the server stops the worker. With `force`, the
        // statement fails if this role may not terminate processes of superusers.
        await client.query(`drop database ${name} ${connectionCount > 0 ? 'with (force)' : ''}`);
        if (connectionCount > 0)
          throw new Error(`The tests left ${connectionCount} connections to the server open`);
      }),
  };
}

/**
 * Returns the name of a migrated template database, and creates the database if necessary. Copying it is faster than
 * running migrations.
 */
async function ensureTemplate(
  server: string,
  { state, migrations }: { state: string; migrations: readonly MigrateOptions[] },
): Promise<string> {
  if (migrations.length === 0) return 'template1';
  const template = `oselya_template_${state}`;
  await withClient(server, async (client) => {
    if (await databaseExists(client, template)) return;
    const name = generateName();
    await client.query(`create database ${name}`);
    const database = await connect({ url: createUrl(server, name) });
    for (const migration of migrations) await migrate(database, migration);
    await database.close();
    await countConnections(client, name);
    try {
      await client.query(`alter database ${name} rename to ${template}`);
    } catch (error) {
      await client.query(`drop database ${name}`);
      // Another process may have created the template first.
      if (!(await databaseExists(client, template))) throw error;
    }
  });
  return template;
}

async function databaseExists(client: pg.Client, name: string): Promise<boolean> {
  const { rows } = await client.query('select from pg_database where datname = $1', [name]);
  return rows.length > 0;
}

function generateName(): string {
  return `oselya_test_${randomBytes(6).toString('hex')}`;
}

function createUrl(server: string, name: string): string {
  const url = new URL(server);
  url.pathname = `/${name}`;
  return url.href;
}

/** Counts the open connections. Waits up to 5 s, because the server lists closed connections for a short time. */
async function countConnections(client: pg.Client, name: string): Promise<number> {
  for (let attempt = 0; ; attempt += 1) {
    const { rows } = await client.query<{ n: number }>(
      'select count(*)::int as n from pg_stat_activity where datname = $1 and backend_type = $2',
      [name, 'client backend'],
    );
    const connectionCount = rows[0]?.n ?? 0;
    if (connectionCount === 0 || attempt === 50) return connectionCount;
    await sleep(100);
  }
}

async function withClient<Result>(
  server: string,
  work: (client: pg.Client) => Promise<Result>,
): Promise<Result> {
  const client = new pg.Client({ connectionString: server });
  await client.connect();
  try {
    return await work(client);
  } finally {
    await client.end();
  }
}
