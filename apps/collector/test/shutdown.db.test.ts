import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { connect } from 'node:net';
import { once } from 'node:events';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { startWorker } from '../src/main.ts';
import { closeTogether } from '../src/async/wait.ts';
import { until } from '@oselya/testing';
import { startCollector } from './support/collector.ts';
import { DIMENSIONS, openDatabase, log } from './support/pipeline.ts';

test('a worker ends while a slow request still does', async () => {
  const database = await openDatabase();
  let unlistened = false;
  const collector = await startCollector({
    ...database,
    async listen(channel, notify) {
      const unlisten = await database.listen(channel, notify);
      return async () => {
        unlistened = true;
        await unlisten();
      };
    },
  });
  // The server asks for the body, which does not come: the request is in progress from then on.
  const { hostname, port } = new URL(collector.url);
  const socket = connect(Number(port), hostname);
  socket.write(
    'POST /api/v1/raw HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n' +
      'Content-Length: 9\r\nExpect: 100-continue\r\n\r\n',
  );
  const [answer] = (await once(socket, 'data')) as [Buffer];
  assert.match(answer.toString(), /100 Continue/);

  const closing = collector.close();
  await until('the worker to be told', () => unlistened);
  assert.equal(socket.closed, false);
  socket.destroy();
  await closing;
});

test('the jobs in progress have a minute when a worker ends', async (t) => {
  await using opened = new AsyncDisposableStack();
  const folder = await mkdtemp(join(tmpdir(), 'oselya-'));
  opened.defer(() => rm(folder, { recursive: true, force: true }));
  const env = { DATA_DIR: folder, EMBEDDING_DIMENSIONS: String(DIMENSIONS), MIN_FREE_DISK_MB: '0' };
  const worker = await startWorker(env, { database: await openDatabase(), log });
  const timers = t.mock.method(globalThis, 'setTimeout');
  await worker.close();
  assert.ok(timers.mock.calls.some((call) => call.arguments[1] === 60_000));
});

test('what closes together begins at once, and a failure is told when all have ended', async () => {
  const slow = Promise.withResolvers<void>();
  let ended = false;
  const closing = closeTogether([
    () => Promise.reject(new Error('broken')),
    async () => {
      await slow.promise;
      ended = true;
    },
  ]);
  slow.resolve();
  await assert.rejects(closing, /broken/);
  assert.ok(ended);
});
