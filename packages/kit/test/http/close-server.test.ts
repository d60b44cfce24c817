import assert from 'node:assert/strict';
import { once } from 'node:events';
import { test } from 'node:test';
import { fastify } from 'fastify';
import { closeServer, listen } from '../../src/index.ts';

test('requests that do not end in time are cut off', { timeout: 60_000 }, async () => {
  const app = fastify();
  app.get('/', () => new Promise(() => undefined));
  const url = await listen(app, { host: '127.0.0.1', port: 0, variable: 'PORT' });
  const started = once(app.server, 'request');
  const cutOff = assert.rejects(fetch(url));
  await started;
  await closeServer(app, 20);
  await cutOff;
});
