import assert from 'node:assert/strict';
import { test } from 'node:test';
import { until } from '@oselya/testing';
import { openTestDatabase } from '@oselya/testing/database';
import { sql } from 'kysely';
import { connect, formatVector } from '../src/index.ts';

type Tables = { numbers: { id: number; price: number | null } };

const database = await openTestDatabase<Tables>();
const { db, pool } = database;
await sql`create table numbers (id bigint generated always as identity, price numeric(14, 2))`.execute(
  db,
);

test('bigint, numeric and counts are numbers on both engines', async () => {
  const row = await db
    .insertInto('numbers')
    .values({ price: 1250.5 } as never)
    .returningAll()
    .executeTakeFirstOrThrow();
  assert.deepEqual(row, { id: 1, price: 1250.5 });
  const { rows } = await sql<{ n: number }>`select count(*) as n from numbers`.execute(db);
  assert.deepEqual(rows, [{ n: 1 }]);
});

test('an integer that JavaScript cannot hold is an error, not another number', async () => {
  await assert.rejects(sql`select 9007199254740993::bigint as n`.execute(db), /9007199254740993/);
});

test('a discarded client ends its transaction', async () => {
  const client = await pool.connect();
  await client.query('begin');
  await client.query('create table never_committed (id int)');
  client.release(true);
  const { rows } = await pool.query(`select to_regclass('never_committed') as found`);
  assert.deepEqual(rows, [{ found: null }]);
});

test('a prepared statement works after its client was discarded', async () => {
  const prepared = { name: 'one', text: 'select $1::int as n', values: [1] };
  await pool.query(prepared);
  await assert.rejects(pool.query('select * from no_such_table'));
  assert.deepEqual((await pool.query(prepared)).rows, [{ n: 1 }]);
});

test('a transaction that throws changes nothing', async () => {
  await assert.rejects(
    db.transaction().execute(async (trx) => {
      await sql`create table never_committed (id int)`.execute(trx);
      throw new Error('changed my mind');
    }),
    /changed my mind/,
  );
  const { rows } = await pool.query(`select to_regclass('never_committed') as found`);
  assert.deepEqual(rows, [{ found: null }]);
});

test('vectors are compared by cosine distance', async () => {
  await sql`create extension if not exists vector`.execute(db);
  const near = formatVector([1, 0.1]);
  const { rows } = await sql<{ d: number }>`
    select round((${near}::vector <=> ${formatVector([1, 0])}::vector)::numeric, 3) as d`.execute(
    db,
  );
  assert.deepEqual(rows, [{ d: 0.005 }]);
  assert.throws(() => formatVector([1, Number.NaN]), RangeError);
});

test('an unreachable server is named without its password', async () => {
  await assert.rejects(
    connect({ url: 'postgres://someone:hunter2@127.0.0.1:1/nowhere' }),
    (error: Error & { code?: string }) =>
      error.code === 'DATABASE_UNREACHABLE' &&
      error.message.includes('DATABASE_URL') &&
      !error.message.includes('hunter2'),
  );
});

// The embedded database is always UTF-8 and always knows Cyrillic letters, and it is told how to write.
if (database.url !== undefined) {
  const warned: [setting: string, said: RegExp][] = [
    ['off', /^The database runs with synchronous_commit off \(set by: client\): .+ can be lost/],
    ['on', /^$/],
    ['local', /^$/],
  ];
  for (const [setting, said] of warned) {
    test(`a server that confirms with synchronous_commit = ${setting} serves, ${setting === 'off' ? 'with a warning' : 'without one'}`, async () => {
      const url = new URL(database.url ?? '');
      url.searchParams.set('options', `-csynchronous_commit=${setting}`);
      const heard: string[] = [];
      const other = await connect({ url: url.href, onWarning: (message) => heard.push(message) });
      await other.close();
      assert.match(heard.join('\n'), said);
    });
  }

  const unsuitable: [settings: string, said: RegExp][] = [
    ["encoding 'UTF8' locale_provider libc locale 'C'", /LC_CTYPE does not know Cyrillic letters/],
    ["encoding 'LATIN1' locale_provider libc locale 'C'", /encoding is LATIN1/],
  ];
  for (const [index, [settings, said]] of unsuitable.entries()) {
    test(`a database with ${settings} is rejected`, async () => {
      const name = `${new URL(database.url ?? '').pathname.slice(1)}_${index}`;
      await pool.query(`create database ${name} template template0 ${settings}`);
      try {
        const url = new URL(database.url ?? '');
        url.pathname = `/${name}`;
        await assert.rejects(connect({ url: url.href }), {
          code: 'DATABASE_UNSUITABLE',
          message: said,
        });
      } finally {
        await pool.query(`drop database ${name} with (force)`);
      }
    });
  }
}

// The embedded database has no connection that could break.
if (database.engine === 'postgres') {
  test('a broken connection is renewed and wakes its listeners', async () => {
    const heard: string[] = [];
    const stop = await database.listen('c', (payload) => heard.push(payload));
    await pool.query(
      `select pg_terminate_backend(pid) from pg_stat_activity
       where datname = current_database() and query like 'listen%'`,
    );
    await until('the notifications', () => heard.includes(''));
    await pool.query(`select pg_notify('c', 'after')`);
    await until('the notifications', () => heard.includes('after'));
    await stop();
  });
}
