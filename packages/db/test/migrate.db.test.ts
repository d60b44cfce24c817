import assert from 'node:assert/strict';
import { cp, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { until } from '@oselya/testing';
import { openTestDatabase } from '@oselya/testing/database';
import type pg from 'pg';
import { applyInTransaction } from '../src/apply-migration.ts';
import { connect, migrate } from '../src/index.ts';
import type { Migration } from '../src/migration-files.ts';

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
  const { rows } = await database.pool.query(`select to_regclass('half') as found`);
  assert.deepEqual(rows, [{ found: null }]);
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
  assert.deepEqual(await found('half', 'after_it'), [false, false]);
  await writeFile(join(copy.folder, '0004_fails.sql'), 'create table half (id int);');
  assert.deepEqual((await migrate(database, options)).applied, [
    '0004_fails.sql',
    '0005_after.sql',
  ]);
  assert.deepEqual(await found('half', 'after_it'), [true, true]);
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
    // The index is there as soon as it waits for the writer, and of no use.
    const terminated = await once(
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
    await once(
      `select true as done from pg_locks
       where relation = 'things'::regclass and mode = 'AccessExclusiveLock' and not granted`,
    );
    // Behind a file that would wait as long as it takes, this would wait as long as the backup.
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

/** A copy of a folder of migrations, to which files are added. */
async function copyOf(name: string): Promise<{ folder: string } & AsyncDisposable> {
  const copy = await mkdtemp(join(tmpdir(), 'oselya-migrations-'));
  await cp(folder(name), copy, { recursive: true });
  return { folder: copy, [Symbol.asyncDispose]: () => rm(copy, { recursive: true }) };
}

/** What another process has of the same database. */
async function other(url: string) {
  const opened = await connect({ url });
  return { ...opened, [Symbol.asyncDispose]: opened.close };
}

/** Whether tables are there. */
async function found(...tables: string[]): Promise<boolean[]> {
  const { rows } = await database.pool.query<{ found: boolean }>(
    'select to_regclass(name) is not null as found from unnest($1::text[]) with ordinality as t (name, nth) order by nth',
    [tables],
  );
  return rows.map((row) => row.found);
}

/** Waits until a query has a row. */
function once(query: string): Promise<boolean> {
  return until(
    'a row',
    async () => (await database.pool.query<{ done: boolean }>(query)).rows[0]?.done,
  );
}

const migration: Migration = {
  name: '0001_things.sql',
  sql: 'create table things (id int)',
  checksum: '',
  concurrently: false,
};

/** A connection on which a statement fails. */
function failingOver(failing: string, error: Error): pg.PoolClient {
  const query = async (text: string | { text: string }) => {
    if ((typeof text === 'string' ? text : text.text) === failing) throw error;
    return { rows: [] };
  };
  return { query } as unknown as pg.PoolClient;
}

/** What the server itself says. */
const said = (severity: string, code: string) =>
  Object.assign(new Error('It failed'), { severity, code });

const broke = Object.assign(new Error('It failed'), { code: 'EPIPE' });
const certain = /0001_things\.sql failed and changed nothing: It failed/;
const uncertain = /0001_things\.sql may have failed, and the next start finds out: It failed/;

test('the error of a file says whether it may be applied', async () => {
  for (const [what, statement, error, message] of [
    ['a connection that breaks over the file', migration.sql, broke, certain],
    ['a connection that breaks over the commit', 'commit', broke, uncertain],
    ['a server that is stopped over the commit', 'commit', said('FATAL', '57P01'), uncertain],
    ['a commit that the server refuses', 'commit', said('ERROR', '23503'), certain],
  ] as const) {
    const applied = applyInTransaction(failingOver(statement, error), 'test', migration, 1000);
    await assert.rejects(applied, { code: 'MIGRATION_FAILED', message }, what);
  }
});
