import assert from 'node:assert/strict';
import fs from 'node:fs';
import { chmod, stat, writeFile } from 'node:fs/promises';
import { syncBuiltinESMExports } from 'node:module';
import { join } from 'node:path';
import { test } from 'node:test';
import { openFolder, startProcess } from '@oselya/testing';
import { fillDataFolder } from '@oselya/testing/database';
import { connect } from '../src/index.ts';

const root = await openFolder();

const writerScript = `
  import { connect } from ${JSON.stringify(join(import.meta.dirname, '../src/index.ts'))};
  const { pool } = await connect({ dataDir: process.argv[1] });
  await pool.query('create table if not exists kept (n int)');
  await pool.query('insert into kept values (1)');
  process.send('committed');
  setInterval(() => {}, 1000);
`;

test('committed data survives SIGKILL, and the folder is free immediately', async () => {
  const dataDir = join(root, 'killed');
  await fillDataFolder(dataDir);
  const { waitForMessage, kill } = startProcess([
    '--input-type=module',
    '-e',
    writerScript,
    dataDir,
  ]);
  assert.equal(await waitForMessage(), 'committed');
  await assert.rejects(connect({ dataDir }), { code: 'FOLDER_LOCKED', message: /DATA_DIR/ });
  await kill();
  const database = await connect({ dataDir });
  const { rows } = await database.pool.query('select n from kept');
  await database.close();
  assert.deepEqual(rows, [{ n: 1 }]);
});

test('only the owner can read the data folder', async () => {
  const dataDir = join(root, 'private');
  await fillDataFolder(dataDir);
  await chmod(join(dataDir, 'database'), 0o755);
  const database = await connect({ dataDir });
  await database.close();
  assert.equal((await stat(join(dataDir, 'database'))).mode & 0o777, 0o700);
});

test('an unusable folder is an error with reason and advice', async () => {
  const dataDir = join(root, 'a-file');
  await writeFile(dataDir, '');
  await assert.rejects(connect({ dataDir }), {
    code: 'FOLDER_UNUSABLE',
    message: /a-file cannot be used \(EEXIST.*DATA_DIR/,
  });
  await assert.rejects(connect({ dataDir: join(dataDir, 'below') }), { code: 'FOLDER_UNUSABLE' });
});

test('a damaged database is reported in one line', async () => {
  const dataDir = join(root, 'damaged');
  await fillDataFolder(dataDir);
  await writeFile(join(dataDir, 'database/global/pg_control'), '');
  await assert.rejects(connect({ dataDir }), {
    code: 'DATABASE_UNSUITABLE',
    message: /^The embedded database in .*damaged.*delete the data folder[^\n]*$/,
  });
});

test('commits of the embedded database reach the disk', async (t) => {
  const dataDir = join(root, 'durable');
  const syncedPaths: string[] = [];
  const { fsyncSync } = fs;
  t.mock.method(fs, 'fsyncSync', (fd: number) => {
    syncedPaths.push(fs.readlinkSync(`/proc/self/fd/${fd}`));
    fsyncSync(fd);
  });
  syncBuiltinESMExports();
  const database = await connect<{ kept: { id: number } }>({ dataDir });
  t.after(async () => {
    await database.close();
    t.mock.restoreAll();
    syncBuiltinESMExports();
  });
  const { db } = database;
  await db.schema.createTable('kept').addColumn('id', 'integer').execute();
  syncedPaths.length = 0;
  await db.selectFrom('kept').selectAll().execute();
  assert.equal(syncedPaths.length, 0, 'a read syncs nothing');
  await db.insertInto('kept').values({ id: 1 }).execute();
  const logFolder = join(fs.realpathSync(dataDir), 'database', 'pg_wal');
  assert.equal(syncedPaths.filter((path) => path.startsWith(logFolder)).length, 1);
});
