import assert from 'node:assert/strict';
import { EventEmitter } from 'node:events';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { after, before, beforeEach, suite, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { deferCleanup, listen, type Proxy, startProxy, until } from '@oselya/testing';
import { cutConnections, openTestDatabase } from '@oselya/testing/database';
import { type Kysely, sql } from 'kysely';
import {
  connect,
  createPreparedStatement,
  type Database,
  isDatabaseOutage,
  migrate,
} from '../src/index.ts';
import { createListener, type ListenerClient } from '../src/listener.ts';

const QUERY_TIMEOUT_MS = 200;
const CONNECTION_COUNT = 5;
const directDatabase = await openTestDatabase<never>();
const { db, pool, url } = directDatabase;
const readOne = (on: Kysely<never>) => sql<{ n: number }>`select 1 as n`.execute(on);
const killConnection = sql`select pg_terminate_backend(pg_backend_pid())`;

test('a failed query does not affect the next one', async () => {
  await assert.rejects(
    sql`select no_such_function()`.execute(db),
    (error) => !isDatabaseOutage(error),
  );
  assert.deepEqual((await readOne(db)).rows, [{ n: 1 }]);
});

// The embedded database has no network connections that can break.
if (url !== undefined) {
  suite('connections that are cut', () => {
    let database: Database<never>;
    const selectPrepared = createPreparedStatement<{ n: number }>('select $1::int as n');

    before(async () => {
      database = await connect<never>({ url, maxConnections: CONNECTION_COUNT });
      await pool.query('create table written (n int)');
    });
    after(() => database.close());
    beforeEach(async () => {
      await pool.query('truncate written');
      await pool.query('drop sequence if exists numbers; create sequence numbers');
      // Opens all connections, so that the test breaks each of them.
      const sleepQueries = Array.from({ length: CONNECTION_COUNT }, () =>
        database.pool.query('select pg_sleep(0.05)'),
      );
      await Promise.all(sleepQueries);
    });

    const getNextNumber = async () =>
      (await pool.query<{ n: number }>(`select nextval('numbers') as n`)).rows[0]?.n;

    const repeatableStatements: Record<string, () => Promise<unknown>> = {
      'a read': async () => (await readOne(database.db)).rows,
      'a prepared read': () => selectPrepared(database.db, [1]),
      'a transaction': () =>
        database.db.transaction().execute(async (trx) => {
          await sql`insert into written values (1)`.execute(trx);
          return (await sql`select n from written`.execute(trx)).rows;
        }),
      'a transaction of another isolation': () =>
        database.db
          .transaction()
          .setIsolationLevel('repeatable read')
          .execute(async (trx) => (await readOne(trx)).rows),
    };
    for (const [title, run] of Object.entries(repeatableStatements)) {
      test(`${title} is repeated after all connections were cut`, async () => {
        cutConnections(url);
        const otherReads = Array.from({ length: 20 }, () => readOne(database.db));
        const [result] = await Promise.all([run(), ...otherReads]);
        assert.deepEqual(result, [{ n: 1 }]);
        assert.equal(database.pool.idleCount, database.pool.totalCount);
      });
    }

    for (const [title, write] of [
      ['an insert', sql`insert into written values (1)`],
      [
        'an insert inside a select',
        sql`with added as (insert into written values (1) returning n) select n from added`,
      ],
      ['a sequence', sql`select nextval('numbers')`],
    ] as const) {
      test(`${title} is not repeated`, async () => {
        cutConnections(url);
        await assert.rejects(write.execute(database.db), isDatabaseOutage);
        assert.equal((await pool.query('select from written')).rows.length, 0);
        assert.equal(await getNextNumber(), 1);
      });
    }

    test('a write whose answer is lost happens once', async () => {
      // A rollback does not reset a sequence, so its next number shows how often the write ran.
      const lostWrite = sql`select nextval('numbers'), pg_terminate_backend(pg_backend_pid())`;
      await assert.rejects(lostWrite.execute(database.db), isDatabaseOutage);
      assert.equal(await getNextNumber(), 2);
    });

    test('a read is repeated once, and a statement inside a transaction never', async () => {
      const openedClients: unknown[] = [];
      database.pool.on('connect', (client) => void openedClients.push(client));
      await assert.rejects(killConnection.execute(database.db), isDatabaseOutage);
      assert.equal(openedClients.length, 1);
      await assert.rejects(
        database.db.transaction().execute((trx) => killConnection.execute(trx)),
        isDatabaseOutage,
      );
      assert.equal((await readOne(database.db)).rows.length, 1);
    });

    test('a broken connection for notifications is renewed, and its listeners are woken', async () => {
      const payloads: string[] = [];
      const unlisten = await directDatabase.listen('c', (payload) => payloads.push(payload));
      await pool.query(
        `select pg_terminate_backend(pid) from pg_stat_activity
         where datname = current_database() and query like 'listen%'`,
      );
      await until('the empty payload', () => payloads.includes(''));
      await pool.query(`select pg_notify('c', 'after')`);
      await until('the notification', () => payloads.includes('after'));
      await unlisten();
    });
  });

  suite('connections that go silent', () => {
    let proxy: Proxy;
    let database: Database<never>;

    before(async () => {
      proxy = await startProxy(new URL(url));
      database = await connect<never>({
        url: proxy.url,
        maxConnections: 1,
        queryTimeoutMs: QUERY_TIMEOUT_MS,
      });
    });
    after(() => database.close());

    const connectionUses: Record<string, () => Promise<unknown>> = {
      'a query': () => readOne(database.db),
      'a transaction': () => database.db.transaction().execute(readOne),
      'a query of the pool': () => database.pool.query('select 1'),
    };
    for (const [title, useConnection] of Object.entries(connectionUses)) {
      test(`${title} on a silent connection fails, and the next one works`, async () => {
        await useConnection();
        proxy.silence();
        await assert.rejects(useConnection(), /timeout/);
        await useConnection();
      });
    }

    test('an abandoned statement ends in the server too', async () => {
      await assert.rejects(sql`select pg_sleep(30) as slept`.execute(database.db), /timeout/);
      await until('the end of the statement', async () => {
        const { rows } = await pool.query(
          `select from pg_stat_activity where query like 'select pg_sleep(30)%' and state = 'active'`,
        );
        return rows.length === 0;
      });
    });

    test('migrations wait for another process longer than queries may', async () => {
      const holder = await pool.connect();
      try {
        await holder.query('begin');
        await holder.query('select pg_advisory_xact_lock(1869833580)');
        const folder = join(import.meta.dirname, 'migrations/good');
        const options = { component: 'good', folder, variables: { dimensions: 3 } };
        const migration = migrate(database, options);
        const hasFailed = migration.then(
          () => false,
          () => true,
        );
        let pollsSince: Date | undefined;
        const hasWaited = async () => {
          // The holder's transaction does not see new sessions, so a different connection queries them.
          const { rows } = await pool.query<{ now: Date }>(
            `select clock_timestamp() as now from pg_stat_activity
             where datname = current_database() and query like '%pg_try_advisory_lock%'
             and pid <> pg_backend_pid()`,
          );
          const now = rows[0]?.now;
          pollsSince ??= now;
          return now !== undefined && Number(now) - Number(pollsSince) > 2 * QUERY_TIMEOUT_MS;
        };
        while (!(await hasWaited()))
          assert.equal(await Promise.race([hasFailed, sleep(20)]), undefined);
        await holder.query('commit');
        assert.equal((await migration).applied.length, 3);
      } finally {
        holder.release(true);
      }
    });
  });
}

/** Encodes a message of the PostgreSQL protocol: type, length and body. */
function encodeMessage(type: string, body: Buffer): Buffer {
  const header = Buffer.alloc(5);
  header.write(type);
  header.writeInt32BE(4 + body.length, 1);
  return Buffer.concat([header, body]);
}

/** Server messages that accept a client and end its session, in one packet. */
const TERMINATION = Buffer.concat([
  encodeMessage('R', Buffer.alloc(4)),
  encodeMessage('Z', Buffer.from('I')),
  encodeMessage('E', Buffer.from('SFATAL\0VFATAL\0C57P01\0Mterminating connection\0\0')),
]);

test('a server that closes new connections crashes no process', async () => {
  const server = createServer((socket) => {
    socket.on('error', () => undefined);
    socket.once('data', () => socket.end(TERMINATION));
  });
  deferCleanup(async () => void server.close());
  const port = await listen(server);
  for (let attempt = 0; attempt < 2; attempt += 1) {
    await assert.rejects(connect({ url: `postgres://user@127.0.0.1:${port}/nothing` }), {
      code: 'DATABASE_UNREACHABLE',
    });
  }
});

/** Fake database client that a test can silence or break. */
class ScriptedClient extends EventEmitter {
  isSilent = false;
  isEnded = false;
  readonly queries: string[] = [];

  async connect(): Promise<void> {}

  async query(text: string): Promise<void> {
    this.queries.push(text);
    if (this.isSilent) await new Promise(() => undefined);
  }

  async end(): Promise<void> {
    this.isEnded = true;
  }
}

function startListener(checkIntervalMs = 60_000) {
  const clients: ScriptedClient[] = [];
  const listener = createListener({
    createClient() {
      const client = new ScriptedClient();
      clients.push(client);
      // The listener uses only the scripted overloads.
      return client as unknown as ListenerClient;
    },
    onError: () => undefined,
    checkIntervalMs,
  });
  deferCleanup(listener.close);
  return { listener, clients, countOpen: () => clients.filter(({ isEnded }) => !isEnded).length };
}

test('a silently dead connection is detected and renewed', async () => {
  const { listener, clients, countOpen } = startListener(20);
  const renewalPayload = Promise.withResolvers<string>();
  await listener.listen('jobs', renewalPayload.resolve);
  if (clients[0]) clients[0].isSilent = true;
  assert.equal(await renewalPayload.promise, '');
  assert.deepEqual(clients[1]?.queries[0], 'listen "jobs"');
  assert.equal(countOpen(), 1);
});

test('a channel added while the connection is renewed opens no second one', async () => {
  const { listener, clients, countOpen } = startListener();
  const renewalPayload = Promise.withResolvers<string>();
  await listener.listen('jobs', renewalPayload.resolve);
  clients[0]?.emit('error', new Error('reset'));
  await listener.listen('users', () => undefined);
  await renewalPayload.promise;
  assert.deepEqual([clients.length, countOpen()], [2, 1]);
});
