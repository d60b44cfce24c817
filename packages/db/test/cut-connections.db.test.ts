import assert from 'node:assert/strict';
import { beforeEach, test } from 'node:test';
import { atEnd } from '@oselya/testing';
import { cutConnections, openTestDatabase } from '@oselya/testing/database';
import { type Kysely, sql } from 'kysely';
import { connect, isDatabaseOutage, createPreparedStatement } from '../src/index.ts';

const CONNECTIONS = 5;

const read = (on: Kysely<never>) => sql<{ n: number }>`select 1 as n`.execute(on);

// The embedded database has no connections that could be cut.
const isServer = process.env['TEST_DATABASE_URL'] !== undefined;
const url = isServer ? (await openTestDatabase<never>()).url : undefined;

if (url !== undefined) {
  const { db, pool, close } = await connect<never>({ url, maxConnections: CONNECTIONS });
  atEnd(close);
  const prepared = createPreparedStatement<{ n: number }>('select $1::int as n');
  await sql`create table written (n int)`.execute(db);

  const written = async () => {
    const { rows } = await sql<{ n: number }>`select n from written`.execute(db);
    return rows.map(({ n }) => n);
  };

  /** Leaves as many idle connections as there may be. */
  async function openAll(): Promise<void> {
    await Promise.all(
      Array.from({ length: CONNECTIONS }, () => sql`select pg_sleep(0.05)`.execute(db)),
    );
    assert.equal(pool.idleCount, CONNECTIONS);
  }

  beforeEach(async () => {
    await sql`truncate written`.execute(db);
    await sql`drop sequence if exists numbers`.execute(db);
    await sql`create sequence numbers`.execute(db);
    await openAll();
  });

  const repeated: Record<string, () => Promise<unknown>> = {
    'a read': async () => (await read(db)).rows,
    'a prepared read': () => prepared(db, [1]),
    'a transaction': () =>
      db.transaction().execute(async (trx) => {
        await sql`insert into written values (1)`.execute(trx);
        return (await sql`select n from written`.execute(trx)).rows;
      }),
    'a transaction of another isolation': () =>
      db
        .transaction()
        .setIsolationLevel('repeatable read')
        .execute(async (trx) => (await read(trx)).rows),
    'a query that keeps its connection': () =>
      db.connection().execute(async (one) => (await read(one)).rows),
  };
  for (const [what, run] of Object.entries(repeated)) {
    test(`${what} is repeated after all connections were cut`, async () => {
      cutConnections(url);
      const results = await Promise.all([run(), ...Array.from({ length: 20 }, () => read(db))]);
      assert.deepEqual(results[0], [{ n: 1 }]);
      assert.equal(pool.idleCount, pool.totalCount);
    });
  }

  const notRepeated: Record<string, () => Promise<unknown>> = {
    'an insert': () => sql`insert into written values (1)`.execute(db),
    'an insert inside a select': () =>
      sql`with added as (insert into written values (1) returning n) select n from added`.execute(
        db,
      ),
    'a sequence': () => sql`select nextval('numbers')`.execute(db),
  };
  for (const [what, run] of Object.entries(notRepeated)) {
    test(`${what} is not repeated`, async () => {
      cutConnections(url);
      await assert.rejects(run(), isDatabaseOutage);
      assert.deepEqual(await written(), []);
      const { rows } = await sql<{ n: number }>`select nextval('numbers') as n`.execute(db);
      assert.deepEqual(rows, [{ n: 1 }]);
    });
  }

  test('a write whose answer is lost happens once', async () => {
    // No rollback takes the number of a sequence back.
    const lost = sql`select nextval('numbers'), pg_terminate_backend(pg_backend_pid())`;
    await assert.rejects(lost.execute(db), isDatabaseOutage);
    const { rows } = await sql<{ n: number }>`select nextval('numbers') as n`.execute(db);
    assert.deepEqual(rows, [{ n: 2 }]);
  });

  test('a read is repeated once, and a statement inside a transaction never', async () => {
    const opened: unknown[] = [];
    pool.on('connect', (client) => void opened.push(client));
    const kill = sql`select pg_terminate_backend(pg_backend_pid())`;
    await assert.rejects(kill.execute(db), isDatabaseOutage);
    assert.equal(opened.length, 1);
    await assert.rejects(
      db.transaction().execute((trx) => kill.execute(trx)),
      isDatabaseOutage,
    );
    assert.equal((await read(db)).rows.length, 1);
  });
}
