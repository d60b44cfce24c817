import assert from 'node:assert/strict';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { after, before, suite, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { listen, type Proxy, startProxy, until } from '@oselya/testing';
import { openTestDatabase } from '@oselya/testing/database';
import { Kysely, PostgresDialect, sql } from 'kysely';
import { connect, type Database, isDatabaseOutage, migrate } from '../src/index.ts';
import { createKyselyPool } from '../src/kysely-pool.ts';
import { openPostgres } from '../src/postgres.ts';

const QUERY_TIMEOUT_MS = 200;
const direct = await openTestDatabase();
const one = (db: Kysely<unknown>) => sql`select 1 as one`.execute(db);

async function isAsleep(): Promise<boolean> {
  const { rows } = await direct.pool.query(
    `select from pg_stat_activity where query = 'select pg_sleep(30) as slept' and state = 'active'`,
  );
  return rows.length > 0;
}

test('a broken connection fails only its query', async () => {
  const { db } = direct;
  if (direct.engine === 'postgres') {
    const kill = sql`select pg_terminate_backend(pg_backend_pid())`;
    await assert.rejects(kill.execute(db), isDatabaseOutage);
    await assert.rejects(db.transaction().execute(kill.execute.bind(kill)), isDatabaseOutage);
  } else {
    await assert.rejects(
      sql`select no_such_function()`.execute(db),
      (error) => !isDatabaseOutage(error),
    );
  }
  assert.deepEqual((await one(db)).rows, [{ one: 1 }]);
});

// The embedded database is in this process: there is no connection that could go silent.
const address = direct.url;
if (address !== undefined) {
  suite('connections that go silent', () => {
    const url = new URL(address);
    let proxy: Proxy;
    let database: Database<unknown>;

    before(async () => {
      proxy = await startProxy(url);
      database = await connect<unknown>({
        url: proxy.url,
        maxConnections: 1,
        queryTimeoutMs: QUERY_TIMEOUT_MS,
      });
    });
    after(async () => {
      await database.close();
    });

    const uses: Record<string, () => Promise<unknown>> = {
      'a query': () => one(database.db),
      'a transaction': () => database.db.transaction().execute(one),
      'a query of the pool': () => database.pool.query('select 1'),
    };
    for (const [name, use] of Object.entries(uses)) {
      test(`${name} on a silent connection fails, and the next one works`, async () => {
        await use();
        proxy.silence();
        await assert.rejects(use(), /timeout/);
        await use();
      });
    }

    test('an abandoned statement ends in the server too', async () => {
      await assert.rejects(sql`select pg_sleep(30) as slept`.execute(database.db), /timeout/);
      await until('the end of the statement', async () => !(await isAsleep()));
    });

    test('migrations wait for another process longer than queries may', async () => {
      const holder = await direct.pool.connect();
      try {
        await holder.query('begin');
        await holder.query('select pg_advisory_xact_lock(1869833580)');
        const folder = join(import.meta.dirname, 'migrations/good');
        const options = { component: 'good', folder, variables: { dimensions: 3 } };
        const migrating = migrate(database, options);
        const failed = migrating.then(
          () => false,
          () => true,
        );
        let asksSince: Date | undefined;
        const waited = async () => {
          // Not of the holder, whose transaction goes on seeing the sessions that it saw first.
          const { rows } = await direct.pool.query<{ now: Date }>(
            `select clock_timestamp() as now from pg_stat_activity
             where datname = current_database() and query like '%pg_try_advisory_lock%'
             and pid <> pg_backend_pid()`,
          );
          const now = rows[0]?.now;
          asksSince ??= now;
          return now !== undefined && Number(now) - Number(asksSince) > 2 * QUERY_TIMEOUT_MS;
        };
        while (!(await waited())) assert.equal(await Promise.race([failed, sleep(20)]), undefined);
        await holder.query('commit');
        assert.equal((await migrating).applied.length, 3);
      } finally {
        holder.release(true);
      }
    });
  });
}

/** A message of the server: its letter, its length, and what it says. PostgreSQL, Message Formats. */
function message(letter: string, ...parts: (string | number)[]): Buffer {
  const body = Buffer.concat(
    parts.map((part) => {
      if (typeof part === 'string') return Buffer.from(part);
      const number = Buffer.alloc(4);
      number.writeInt32BE(part);
      return number;
    }),
  );
  const head = Buffer.alloc(5);
  head.write(letter);
  head.writeInt32BE(4 + body.length, 1);
  return Buffer.concat([head, body]);
}

/** Lets everybody in and at once out again, all of it in one packet. */
const FAREWELL = Buffer.concat([
  message('R', 0),
  message('Z', 'I'),
  message('E', 'SFATAL\0VFATAL\0C57P01\0Mterminating connection\0\0'),
]);

test('a server that closes new connections crashes no process', async () => {
  const server = createServer((socket) => {
    socket.on('error', () => undefined);
    socket.once('data', () => socket.end(FAREWELL));
  });
  const port = await listen(server);
  const database = openPostgres({
    url: `postgres://nobody@127.0.0.1:${port}/nothing`,
    maxConnections: 1,
    onError: () => undefined,
  });
  const db = new Kysely<unknown>({
    dialect: new PostgresDialect({ pool: createKyselyPool(database.pool) }),
  });
  try {
    for (let time = 0; time < 2; time += 1) {
      await assert.rejects(sql`select 1`.execute(db), isDatabaseOutage);
    }
  } finally {
    await database.close();
    server.close();
  }
});
