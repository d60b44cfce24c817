import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { connect } from '@oselya/db';
import { atEnd, until } from '@oselya/testing';
import { startWorker } from '../../src/main.ts';
import { CHANNEL, createNotifications } from '../../src/queue/notifications.ts';
import { POLL_MS } from '../../src/queue/worker.ts';
import type { Tables } from '../../src/tables.ts';
import { startCollector } from '../support/collector.ts';
import { DIMENSIONS, openDatabase, rawRecord, payloadOf, log } from '../support/pipeline.ts';

const database = await openDatabase();

test('A hundred notifications are immediate in this process and two in other processes', async () => {
  let notified = 0;
  let heard = 0;
  const unlisten = await database.listen(CHANNEL, () => {
    notified += 1;
  });
  const notifications = createNotifications({
    db: database.db,
    onError: (error) => assert.fail(String(error)),
    intervalMs: 50,
  });
  const forget = notifications.subscribe(() => {
    heard += 1;
  });
  for (let i = 0; i < 100; i += 1) notifications.send();
  assert.equal(heard, 100);
  forget();
  await until('the notification at once and the one after the interval', () => notified === 2);
  notifications.send();
  await until('the next one', () => notified === 3);
  await notifications.close();
  await unlisten();
  assert.equal(heard, 100);
});

test('A failed notification is logged and has no effect', async () => {
  const closed = await connect<Tables>({});
  await closed.close();
  const errors: unknown[] = [];
  const notifications = createNotifications({
    db: closed.db,
    onError: (error) => errors.push(error),
  });
  notifications.send();
  await notifications.close();
  assert.equal(errors.length, 1);
});

test('Each payload wakes an idle worker of another process', async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'oselya-wake-'));
  atEnd(() => rm(folder, { recursive: true, force: true }));
  // The poll never ends, so that only notifications wake the worker.
  const { setTimeout: original } = globalThis;
  let polls = 0;
  const withoutPoll = (work: () => void, ms?: number) => {
    if (ms === POLL_MS) polls += 1;
    return original(ms === POLL_MS ? () => undefined : work, ms);
  };
  t.mock.method(globalThis, 'setTimeout', Object.assign(withoutPoll, original));
  // With PostgreSQL it has separate connections, as another process has.
  const worker = await startWorker(
    {
      DATA_DIR: folder,
      EMBEDDING_DIMENSIONS: String(DIMENSIONS),
      MIN_FREE_DISK_MB: '0',
      ...(database.url === undefined ? {} : { DATABASE_URL: database.url }),
    },
    { log, ...(database.url === undefined ? { database } : {}) },
  );
  await using opened = new AsyncDisposableStack();
  opened.defer(worker.close);
  await using collector = await startCollector(database, { COLLECTOR_WORKER: 'false' });
  await until('the worker to have nothing to do', () => polls > 0);
  for (let nth = 0; nth < 10; nth += 1) {
    const { status, json } = await collector.post('/api/v1/ingest', payloadOf());
    assert.equal(status, 202);
    const { raw_id: id } = json<{ raw_id: number }>();
    await until(
      'the payload to be processed',
      async () => (await rawRecord(database.db, id)).status === 'completed',
      5000,
    );
  }
});
