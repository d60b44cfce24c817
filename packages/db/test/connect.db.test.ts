import assert from 'node:assert/strict';
import { test } from 'node:test';
import { openTestDatabase } from '@oselya/testing/database';
import { sql } from 'kysely';
import pg from 'pg';
import { connect, formatVector, hideFromPlanner, prepared, retryConflicts } from '../src/index.ts';

type Tables = { numbers: { id: number; price: number | null } };

const database = await openTestDatabase<Tables>();
const { db, pool } = database;
await pool.query(
  'create table numbers (id bigint generated always as identity, price numeric(14, 2))',
);

const isMissing = async (table: string) =>
  (await pool.query('select where to_regclass($1) is null', [table])).rows.length === 1;

test('bigint, numeric and counts are numbers on both engines', async () => {
  const { rows } = await sql`
    insert into numbers (price) values (1250.5)
    returning id, price, (select count(*) from numbers) as count`.execute(db);
  assert.deepEqual(rows, [{ id: 1, price: 1250.5, count: 0 }]);
  await assert.rejects(sql`select 9007199254740993::bigint as n`.execute(db), /9007199254740993/);
});

test('a discarded client and a failed transaction change nothing', async () => {
  const client = await pool.connect();
  await client.query('begin');
  await client.query('create table never_committed (id int)');
  client.release(true);
  const failedTransaction = db.transaction().execute(async (trx) => {
    await sql`create table rolled_back (id int)`.execute(trx);
    throw new Error('changed my mind');
  });
  await assert.rejects(failedTransaction, /changed my mind/);
  assert.deepEqual(
    [await isMissing('never_committed'), await isMissing('rolled_back')],
    [true, true],
  );
});

test('a prepared statement has one name for all values, and works after a failed query', async () => {
  const createSelect = (count: number) =>
    sql`${prepared}select id from numbers limit ${hideFromPlanner(count)}`;
  await db.connection().execute(async (connection) => {
    for (const count of [1, 2]) await createSelect(count).execute(connection);
    const { rows } = await sql`select from pg_prepared_statements
      where statement like '%from numbers limit%'`.execute(connection);
    assert.equal(rows.length, 1);
  });
  await assert.rejects(pool.query('select * from no_such_table'));
  await createSelect(3).execute(db);
});

test('a conflict with another transaction is retried at most twice, and other errors are not', async () => {
  const countAttempts = async (...codes: string[]) => {
    let attempts = 0;
    const resultPromise = retryConflicts(async () => {
      const code = codes[attempts];
      attempts += 1;
      if (code !== undefined) throw Object.assign(new Error(code), { code });
    });
    await resultPromise.catch(() => undefined);
    return attempts;
  };
  assert.equal(await countAttempts('40001', '40P01'), 3);
  assert.equal(await countAttempts('40P01', '40P01', '40P01', '40P01'), 3);
  assert.equal(await countAttempts('23505'), 1);
});

test('a vector is formatted if all of its numbers are finite', () => {
  assert.equal(formatVector([1, 0.1]), '[1,0.1]');
  assert.throws(() => formatVector([1, Number.NaN]), RangeError);
});

test('the error of an unreachable server has no password', async () => {
  await assert.rejects(
    connect({ url: 'postgres://someone:hunter2@127.0.0.1:1/nowhere' }),
    (error: Error & { code?: string }) =>
      error.code === 'DATABASE_UNREACHABLE' &&
      error.message.includes('DATABASE_URL') &&
      !error.message.includes('hunter2'),
  );
});

// The embedded database always has suitable settings.
if (database.url !== undefined) {
  const url = new URL(database.url);

  for (const [setting, expected] of [
    ['off', /^The database runs with synchronous_commit off \(set by: client\): .+ can be lost/],
    ['on', /^$/],
    ['local', /^$/],
  ] as const) {
    test(`synchronous_commit = ${setting} ${setting === 'off' ? 'gives a' : 'gives no'} warning`, async () => {
      const settingUrl = new URL(url);
      settingUrl.searchParams.set('options', `-csynchronous_commit=${setting}`);
      const warnings: string[] = [];
      const onWarning = (message: string) => void warnings.push(message);
      await (await connect({ url: settingUrl.href, onWarning })).close();
      assert.match(warnings.join('\n'), expected);
    });
  }

  for (const [encoding, message] of [
    ['UTF8', /LC_CTYPE does not know Cyrillic letters/],
    ['LATIN1', /encoding is LATIN1/],
  ] as const) {
    test(`a database with encoding ${encoding} and locale C is rejected`, async () => {
      const encodingUrl = new URL(url);
      encodingUrl.pathname += `_${encoding.toLowerCase()}`;
      const name = encodingUrl.pathname.slice(1);
      // Creating a database on a busy server may take longer than the query timeout of the pool.
      const client = new pg.Client({ connectionString: url.href });
      await client.connect();
      await client.query(
        `create database ${name} template template0 encoding '${encoding}' locale_provider libc locale 'C'`,
      );
      try {
        const code = 'DATABASE_UNSUITABLE';
        await assert.rejects(connect({ url: encodingUrl.href }), { code, message });
      } finally {
        await client.query(`drop database ${name} with (force)`);
        await client.end();
      }
    });
  }
}
