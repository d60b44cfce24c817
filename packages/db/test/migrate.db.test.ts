import assert from 'node:assert/strict';
import { cp, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { until } from '@oselya/testing';
import { openTestDatabase } from '@oselya/testing/database';
import { connect, migrate } from '../src/index.ts';

const folder = (name: string) => join(import.meta.dirname, 'migrations', name);
const good = { component: 'good', folder: folder('good'), variables: { dimensions: 3 } };
const database = await openTestDatabase();

test('concurrent starts run each file once', async () => {
  const starters =
    database.url === undefined
      ? [database, database]
      : [await connect({ url: database.url }), await connect({ url: database.url })];
  const results = await Promise.all(starters.map((starter) => migrate(starter, good)));
  if (database.url !== undefined) await Promise.all(starters.map((starter) => starter.close()));

  assert.deepEqual(results.flatMap((result) => result.applied).toSorted(), [
    '0001_things.sql',
    '0002_more.sql',
    '0003_things_by_name.concurrently.sql',
  ]);
  const { rows } = await database.pool.query('select name, price from things order by id');
  assert.deepEqual(rows, [
    { name: 'first', price: 12.5 },
    { name: 'second', price: null },
  ]);
});

test('a failed file is named and rolled back', async () => {
  await assert.rejects(migrate(database, { component: 'bad', folder: folder('bad') }), {
    code: 'MIGRATION_FAILED',
    message: /bad\/0001_fails\.sql failed and changed nothing: .*no_such_table/,
  });
  assert.deepEqual(await exist('half'), [false]);
});

test('a failed file keeps earlier files applied', async () => {
  await using copy = await copyOf('good');
  await writeFile(
    join(copy.folder, '0004_fails.sql'),
    'create table half (id int); select no_such();',
  );
  await writeFile(join(copy.folder, '0005_after.sql'), 'create table after_it (id int);');
  const options = { ...good, folder: copy.folder };
  await assert.rejects(migrate(database, options), {
    message: /0004_fails\.sql failed and changed/,
  });
  assert.deepEqual(await exist('half', 'after_it'), [false, false]);
  await writeFile(join(copy.folder, '0004_fails.sql'), 'create table half (id int);');
  assert.deepEqual((await migrate(database, options)).applied, [
    '0004_fails.sql',
    '0005_after.sql',
  ]);
  assert.deepEqual(await exist('half', 'after_it'), [true, true]);
});

test('an invalid index is built again, a valid one stays', async () => {
  const options = { component: 'concurrent', folder: folder('concurrent') };
  await assert.rejects(migrate(database, options), {
    code: 'MIGRATION_FAILED',
    message: /0002_names\.concurrently\.sql failed, and the next start goes on with it: .*unique/,
  });
  const before = await indexes();
  assert.deepEqual(
    before.map(({ name, valid }) => [name, valid]),
    [
      ['rows_by_name', true],
      ['rows_by_unique_name', false],
    ],
  );
  await database.pool.query(
    'delete from rows_of_names where ctid = (select min(ctid) from rows_of_names)',
  );
  assert.deepEqual((await migrate(database, options)).applied, ['0002_names.concurrently.sql']);
  const after = await indexes();
  assert.ok(after.every(({ valid }) => valid));
  assert.equal(after[0]?.id, before[0]?.id);
  assert.deepEqual((await migrate(database, options)).applied, []);

  async function indexes(): Promise<{ name: string; valid: boolean; id: number }[]> {
    const { rows } = await database.pool.query<{ name: string; valid: boolean; id: number }>(
      `select indexrelid::regclass::text as name, indisvalid as valid, indexrelid::integer as id
       from pg_index where indrelid = 'rows_of_names'::regclass order by name`,
    );
    return rows;
  }
});

if (database.url !== undefined) {
  const { url } = database;

  test('the remains of a killed index build are repaired', async () => {
    await using starter = await other(url);
    await using writer = await other(url);
    await using copy = await copyOf('good');
    await writeFile(
      join(copy.folder, '0006_price.concurrently.sql'),
      'create index concurrently if not exists things_by_price on things (price);',
    );
    const options = { ...good, folder: copy.folder };
    const client = await writer.pool.connect();
    await client.query(`begin; insert into things (name) values ('unfinished')`);
    const migrating = migrate(starter, options);
    const ended = assert.rejects(migrating, { message: /0006_price\.concurrently\.sql failed/ });
    // The build waits for the writer, and the index is invalid until then.
    const terminated = await untilRow(
      `select pg_terminate_backend(activity.pid) as done
       from pg_index join pg_stat_activity as activity on activity.query like 'create index%things_by_price%'
       where indexrelid = to_regclass('things_by_price') and not indisvalid
         and activity.datname = current_database()`,
    );
    assert.ok(terminated);
    await ended;
    await client.query('rollback');
    client.release();

    assert.deepEqual((await migrate(database, options)).applied, ['0006_price.concurrently.sql']);
    const { rows } = await database.pool.query(
      `select indisvalid as valid from pg_index where indexrelid = 'things_by_price'::regclass`,
    );
    assert.deepEqual(rows, [{ valid: true }]);
  });

  test('a waiting file lets readers go first', async () => {
    await using starter = await other(url);
    await using backup = await other(url);
    await using copy = await copyOf('good');
    await writeFile(
      join(copy.folder, '0007_later.sql'),
      'alter table things add column later int;',
    );
    const client = await backup.pool.connect();
    await client.query('begin; lock table things in access share mode');
    const migrating = migrate(starter, { ...good, folder: copy.folder, lockTimeoutMs: 50 });
    await untilRow(
      `select true as done from pg_locks
       where relation = 'things'::regclass and mode = 'AccessExclusiveLock' and not granted`,
    );
    // The migration waits only briefly, so this reader does not wait for the backup.
    await database.pool.query(
      `set statement_timeout = '5s'; select from things; reset statement_timeout`,
    );
    await client.query('rollback');
    client.release();
    assert.deepEqual((await migrating).applied, ['0007_later.sql']);
  });
}

test('a file changed after its application is rejected', async () => {
  await using copy = await copyOf('good');
  await writeFile(join(copy.folder, '0002_more.sql'), 'select 1;');
  await assert.rejects(migrate(database, { ...good, folder: copy.folder }), {
    code: 'MIGRATION_FAILED',
    message: /good\/0002_more\.sql was changed/,
  });
});

test('a variable without a value is named', async () => {
  await assert.rejects(migrate(database, { component: 'other', folder: good.folder }), {
    message: /0001_things\.sql needs a value for \{\{dimensions\}\}/,
  });
});

/** Copies a folder of migrations, so that a test can add files. */
async function copyOf(name: string): Promise<{ folder: string } & AsyncDisposable> {
  const copy = await mkdtemp(join(tmpdir(), 'oselya-migrations-'));
  await cp(folder(name), copy, { recursive: true });
  return { folder: copy, [Symbol.asyncDispose]: () => rm(copy, { recursive: true }) };
}

/** Opens another connection pool. */
async function other(url: string) {
  const opened = await connect({ url });
  return { ...opened, [Symbol.asyncDispose]: opened.close };
}

/** Returns which tables exist. */
async function exist(...tables: string[]): Promise<boolean[]> {
  const { rows } = await database.pool.query<{ exists: boolean }>(
    'select to_regclass(name) is not null as exists from unnest($1::text[]) with ordinality as t (name, nth) order by nth',
    [tables],
  );
  return rows.map((row) => row.exists);
}

/** Waits until a query returns a row. */
function untilRow(query: string): Promise<boolean> {
  return until(
    'a row',
    async () => (await database.pool.query<{ done: boolean }>(query)).rows[0]?.done,
  );
}
