import assert from 'node:assert/strict';
import { cp, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { connect, migrate } from '../src/index.ts';
import { openTestDatabase } from '../src/testing.ts';

const folder = (name: string) => join(import.meta.dirname, 'migrations', name);
const good = { component: 'good', folder: folder('good'), variables: { dimensions: 3 } };
const database = await openTestDatabase();

test('two that start at once both succeed, and each file runs once', async () => {
  const starters =
    database.url === undefined
      ? [database, database]
      : [await connect({ url: database.url }), await connect({ url: database.url })];
  const results = await Promise.all(starters.map((starter) => migrate(starter, good)));
  if (database.url !== undefined) await Promise.all(starters.map((starter) => starter.close()));

  assert.deepEqual(results.flatMap((result) => result.applied).toSorted(), [
    '0001_things.sql',
    '0002_more.sql',
  ]);
  const { rows } = await database.pool.query('select name, price from things order by id');
  assert.deepEqual(rows, [
    { name: 'first', price: 12.5 },
    { name: 'second', price: null },
  ]);
});

test('a second run finds nothing to do', async () => {
  assert.deepEqual(await migrate(database, good), { component: 'good', applied: [] });
});

test('a file that fails is named and leaves nothing behind', async () => {
  await assert.rejects(migrate(database, { component: 'bad', folder: folder('bad') }), {
    code: 'MIGRATION_FAILED',
    message: /bad\/0001_fails\.sql failed and changed nothing: .*no_such_table/,
  });
  const { rows } = await database.pool.query(`select to_regclass('half') as found`);
  assert.deepEqual(rows, [{ found: null }]);
});

test('a file changed after it was applied is refused', async () => {
  const changed = await mkdtemp(join(tmpdir(), 'oselya-migrations-'));
  try {
    await cp(good.folder, changed, { recursive: true });
    await writeFile(join(changed, '0002_more.sql'), 'select 1;');
    await assert.rejects(migrate(database, { ...good, folder: changed }), {
      code: 'MIGRATION_FAILED',
      message: /good\/0002_more\.sql was changed/,
    });
  } finally {
    await rm(changed, { recursive: true });
  }
});

test('a variable without a value is named', async () => {
  await assert.rejects(migrate(database, { component: 'other', folder: good.folder }), {
    message: /0001_things\.sql needs a value for \{\{dimensions\}\}/,
  });
});
