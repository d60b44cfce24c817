import assert from 'node:assert/strict';
import fs from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { connect } from '../src/connect.ts';

/** Notes which files reach the disk, in their order. */
function watchSyncs(t: TestContext): string[] {
  const paths: string[] = [];
  const { fsyncSync } = fs;
  t.mock.method(fs, 'fsyncSync', (fd: number) => {
    paths.push(fs.readlinkSync(`/proc/self/fd/${fd}`));
    fsyncSync(fd);
  });
  syncBuiltinESMExports();
  t.after(() => {
    t.mock.restoreAll();
    syncBuiltinESMExports();
  });
  return paths;
}

test('what an embedded database has committed has reached the disk', async (t) => {
  const dataDir = await fs.promises.mkdtemp(join(tmpdir(), 'db-durable-'));
  const synced = watchSyncs(t);
  const database = await connect<{ kept: { id: number } }>({ dataDir });
  t.after(async () => {
    await database.close();
    await fs.promises.rm(dataDir, { recursive: true });
  });
  const { db } = database;
  await db.schema.createTable('kept').addColumn('id', 'integer').execute();
  synced.length = 0;
  await db.selectFrom('kept').selectAll().execute();
  assert.equal(synced.length, 0, 'a reading writes nothing');
  await db.insertInto('kept').values({ id: 1 }).execute();
  const log = join(fs.realpathSync(dataDir), 'database', 'pg_wal');
  assert.equal(synced.filter((path) => path.startsWith(log)).length, 1);
});
