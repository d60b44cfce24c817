import assert from 'node:assert/strict';
import { test } from 'node:test';
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
  const after = await store(db, payloadOf({ external_id: 'after' }));
  await startCollector(database);
  await until('the later job', async () => (await rawRecord(db, after)).status === 'completed');

  if (database.engine === 'pglite') {
    await until('the job left', async () => (await rawRecord(db, left)).status === 'completed');
    assert.equal((await rawRecord(db, left)).attempts, 2);
  } else {
    assert.equal((await rawRecord(db, left)).status, 'processing');
  }
});
