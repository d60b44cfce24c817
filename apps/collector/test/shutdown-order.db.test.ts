import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import type { Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import {
  constantAnswers,
  type ReceivedRequest,
  constantVector,
  startModelServer,
} from '@oselya/model/testing';
import { start, startWorker } from '../src/main.ts';
import { until } from '@oselya/testing';
import { DIMENSIONS, openDatabase, rawRecord, store, payloadOf, log } from './support/pipeline.ts';

/** A model server that holds its answers until they are let go, and knows who is connected. */
async function startSlowServer() {
  const asked = Promise.withResolvers<void>();
  const go = Promise.withResolvers<void>();
  const sockets = new Set<Socket>();
  const paths: string[] = [];
  const answer = constantAnswers({ vectorOf: constantVector(DIMENSIONS) });
  const server = await startModelServer(async (request: ReceivedRequest) => {
    paths.push(request.path);
    asked.resolve();
    await go.promise;
    const answered = answer(request);
    assert.ok(typeof answered === 'object' && 'body' in answered);
    return {
      write(response) {
        if (response.socket !== null) sockets.add(response.socket);
        response.writeHead(200, { 'content-type': 'application/json' });
        response.end(JSON.stringify(answered.body));
      },
    };
  });
  return { server, asked: asked.promise, letGo: go.resolve, sockets, paths };
}

for (const { name, open } of [
  { name: 'a worker', open: startWorker },
  { name: 'a collector', open: start },
]) {
  test(`${name} ends its jobs first, which may ask the model meanwhile, and then closes the model client`, async () => {
    await using opened = new AsyncDisposableStack();
    const folder = await mkdtemp(join(tmpdir(), 'oselya-'));
    opened.defer(() => rm(folder, { recursive: true, force: true }));
    const { server, asked, letGo, sockets, paths } = await startSlowServer();
    opened.defer(server.close);
    opened.defer(letGo);
    const database = await openDatabase();
    const id = await store(database.db, payloadOf());
    let unlistened = false;
    const running = await open(
      {
        DATA_DIR: folder,
        COLLECTOR_PORT: '0',
        EMBEDDING_DIMENSIONS: String(DIMENSIONS),
        MIN_FREE_DISK_MB: '0',
        MODEL_MODE: 'openai',
        MODEL_BASE_URL: server.url,
        MODEL_CHAT: 'chat',
        MODEL_EMBEDDING: 'embedding',
      },
      {
        log,
        database: {
          ...database,
          async listen(channel, notify) {
            const unlisten = await database.listen(channel, notify);
            return async () => {
              unlistened = true;
              await unlisten();
            };
          },
        },
      },
    );
    await asked;
    const closing = running.close();
    // An end in another order would wait for the answer that is held back here.
    await until('the worker to be told to stop', () => unlistened, 2000).finally(letGo);
    await closing;

    assert.deepEqual(paths, ['/v1/chat/completions', '/v1/embeddings']);
    assert.equal((await rawRecord(database.db, id)).status, 'completed');
    // Connections that nobody closes are kept for more requests, for several seconds.
    await until('the model client to be closed', () => [...sockets].every((s) => s.closed), 1000);
  });
}
