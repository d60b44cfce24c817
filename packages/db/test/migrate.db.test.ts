import assert from 'node:assert/strict';
import { cp, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { openFolder, until } from '@oselya/testing';
import { openTestDatabase } from '@oselya/testing/database';
import type pg from 'pg';
import { connect, migrate } from '../src/index.ts';

const getFolder = (name: string) => join(import.meta.dirname, 'migrations', name);
const goodMigrations = {
  component: 'good',
  folder: getFolder('good'),
  variables: { dimensions: 3 },
};
const database = await openTestDatabase();

test('concurrent starts run each file once', async () => {
  const starters =
    database.url === undefined
      ? [database, database]
      : [await connect({ url: database.url }), await connect({ url: database.url })];
  const results = await Promise.all(starters.map((starter) => migrate(starter, goodMigrations)));
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

test('a failed file is named and rolled back, and earlier files stay applied', async () => {
  const options = await copyGoodMigrations({
    '0004_half.sql': 'create table half (id int)',
    '0005_fails.sql': 'create table other (id int); select no_such();',
    '0006_after.sql': 'create table after_it (id int);',
  });
  await assert.rejects(migrate(database, options), {
    code: 'MIGRATION_FAILED',
    message: /good\/0005_fails\.sql failed and changed nothing: .*no_such/,
  });
  assert.deepEqual(await findExisting('half', 'other', 'after_it'), ['half']);
  await writeFile(join(options.folder, '0005_fails.sql'), 'create table other (id int);');
  const { applied } = await migrate(database, options);
  assert.deepEqual(applied, ['0005_fails.sql', '0006_after.sql']);
  assert.deepEqual(await findExisting('other', 'after_it'), ['after_it', 'other']);
});

test('a concurrent file may only contain repeatable statements', async () => {
  const options = await copyGoodMigrations({
    '0008_locks.concurrently.sql': 'alter table things add column other text;',
  });
  await assert.rejects(migrate(database, options), {
    message: /0008_locks.*"alter table things .*" is neither "create index concurrently/,
  });
});

test('an invalid index is built again, a valid one stays', async () => {
  const options = { component: 'concurrent', folder: getFolder('concurrent') };
  await assert.rejects(migrate(database, options), {
    code: 'MIGRATION_FAILED',
    message: /0002_names\.concurrently\.sql failed; the next start continues it: .*unique/,
  });
  const indexesBefore = await readIndexes();
  assert.deepEqual(
    indexesBefore.map(({ name, valid }) => [name, valid]),
    [
      ['rows_by_name', true],
      ['rows_by_unique_name', false],
    ],
  );
  await database.pool.query(
    'delete from rows_of_names where ctid = (select min(ctid) from rows_of_names)',
  );
  assert.deepEqual((await migrate(database, options)).applied, ['0002_names.concurrently.sql']);
  const indexesAfter = await readIndexes();
  assert.ok(indexesAfter.every(({ valid }) => valid));
  assert.equal(indexesAfter[0]?.id, indexesBefore[0]?.id);
  assert.deepEqual((await migrate(database, options)).applied, []);

  async function readIndexes(): Promise<{ name: string; valid: boolean; id: number }[]> {
    const { rows } = await database.pool.query<{ name: string; valid: boolean; id: number }>(
      `select indexrelid::regclass::text as name, indisvalid as valid, indexrelid::integer as id
       from pg_index where indrelid = 'rows_of_names'::regclass order by name`,
    );
    return rows;
  }
});

if (database.url !== undefined) {
  test('a waiting file lets readers go first', async () => {
    const backup = await connect({ url: database.url });
    const options = await copyGoodMigrations({
      '0009_later.sql': 'alter table things add column later int;',
    });
    const client = await backup.pool.connect();
    await client.query('begin; lock table things in access share mode');
    const migration = migrate(database, { ...options, lockTimeoutMs: 50 });
    await until('the migration to wait', async () => {
      const { rows } = await database.pool.query(
        `select from pg_locks
         where relation = 'things'::regclass and mode = 'AccessExclusiveLock' and not granted`,
      );
      return rows.length > 0;
    });
    // The migration waits for its lock only briefly at a time, so this reader does not wait for the backup.
    await database.pool.query(
      `set statement_timeout = '5s'; select from things; reset statement_timeout`,
    );
    await client.query('rollback');
    client.release();
    await backup.close();
    assert.deepEqual((await migration).applied, ['0009_later.sql']);
  });
}

test('the error of a file says whether it may be applied', async () => {
  const isFile = (text: string) => text.startsWith('create extension');
  const isCommit = (text: string) => text === 'commit';
  const brokenConnection = { code: 'EPIPE' };
  const certainMessage = /0001_things\.sql failed and changed nothing: It failed/;
  const uncertainMessage =
    /0001_things\.sql may have failed; the next start checks this: It failed/;
  for (const [title, isFailing, details, message] of [
    ['a connection that breaks during the file', isFile, brokenConnection, certainMessage],
    ['a connection that breaks during the commit', isCommit, brokenConnection, uncertainMessage],
    ['a server that stops', isCommit, { severity: 'FATAL', code: '57P01' }, uncertainMessage],
    ['a rejected commit', isCommit, { severity: 'ERROR', code: '23503' }, certainMessage],
  ] as const) {
    const pool = createFailingPool(isFailing, Object.assign(new Error('It failed'), details));
    const migration = migrate({ pool }, goodMigrations);
    await assert.rejects(migration, { code: 'MIGRATION_FAILED', message }, title);
  }
});

test('a file changed after its application is rejected', async () => {
  const options = await copyGoodMigrations({ '0002_more.sql': 'select 1;' });
  await assert.rejects(migrate(database, options), {
    code: 'MIGRATION_FAILED',
    message: /good\/0002_more\.sql was changed/,
  });
});

test('a variable without a value is named', async () => {
  await assert.rejects(migrate(database, { component: 'other', folder: goodMigrations.folder }), {
    message: /0001_things\.sql needs a value for \{\{dimensions\}\}/,
  });
});

/** Copies the good migrations, and adds or replaces files. */
async function copyGoodMigrations(files: Record<string, string>) {
  const folder = await openFolder();
  await cp(goodMigrations.folder, folder, { recursive: true });
  for (const [name, text] of Object.entries(files)) await writeFile(join(folder, name), text);
  return { ...goodMigrations, folder };
}

/** Creates a pool without a database, in which one statement fails. */
function createFailingPool(isFailing: (text: string) => boolean, error: Error): pg.Pool {
  const client = {
    on() {},
    removeListener() {},
    release() {},
    async query(query: string | { text: string }) {
      const text = typeof query === 'string' ? query : query.text;
      if (isFailing(text)) throw error;
      return { rows: text.includes('pg_try_advisory_lock') ? [{ isAcquired: true }] : [] };
    },
  };
  return { connect: async () => client } as unknown as pg.Pool;
}

/** Returns those of the given tables that exist, ordered by name. */
async function findExisting(...tables: string[]): Promise<string[]> {
  const { rows } = await database.pool.query<{ name: string }>(
    'select name from unnest($1::text[]) as name where to_regclass(name) is not null order by name',
    [tables],
  );
  return rows.map(({ name }) => name);
}
