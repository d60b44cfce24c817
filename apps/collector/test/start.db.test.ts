import assert from 'node:assert/strict';
import { mkdir, mkdtemp, readdir, rm, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { startCollector } from './support/collector.ts';
import { openDatabase, rawRecord, store } from './support/database.ts';
import { payloadOf } from './support/payload.ts';
import { until } from './support/until.ts';

const database = await openDatabase();
const { db } = database;

test('a job left by a killed process waits for its lease only where others may work on it', async () => {
  const left = await store(db, payloadOf({ external_id: 'left' }));
  await db
    .updateTable('raw_data')
    .set({
      status: 'processing',
      attempt: 1,
      attempts: 1,
      lease_expires_at: new Date(Date.now() + 3_600_000),
    })
    .where('id', '=', left)
    .execute();
  const later = await store(db, payloadOf({ external_id: 'after' }));
  await using _ = await startCollector(database);
  await until('the later job', async () => (await rawRecord(db, later)).status === 'completed');

  if (database.engine === 'pglite') {
    await until('the job left', async () => (await rawRecord(db, left)).status === 'completed');
    assert.equal((await rawRecord(db, left)).attempts, 2);
  } else {
    assert.equal((await rawRecord(db, left)).status, 'processing');
  }
});

test('a start removes the temporary pictures of killed processes', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'oselya-start-'));
  after(() => rm(folder, { recursive: true, force: true }));
  const incoming = join(folder, 'images', 'incoming');
  await mkdir(incoming, { recursive: true });
  await writeFile(join(incoming, 'left'), 'half a picture');
  const longAgo = new Date(Date.now() - 2 * 3_600_000);
  await utimes(join(incoming, 'left'), longAgo, longAgo);
  await using _ = await startCollector(database, { DATA_DIR: folder, COLLECTOR_WORKER: 'false' });
  assert.deepEqual(await readdir(incoming), []);
});
