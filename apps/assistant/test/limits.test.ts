import assert from 'node:assert/strict';
import { once } from 'node:events';
import type { Socket } from 'node:net';
import { openSocket } from '@oselya/testing';
import { after, test } from 'node:test';
import { commonProblem, createLogger, createServer } from '@oselya/kit';
import { limitTransfers, perMinute, perMinuteOfEach } from '../src/limits.ts';
import { until } from './helpers/until.ts';

const HEAD = 'Host: x\r\nContent-Type: application/json\r\n';

/** Starts a server that permits two transfers at once. */
async function start() {
  const app = await createServer({
    log: createLogger({ level: 'silent', service: 'test' }),
    bodyLimit: 1024,
    openapi: { title: 'Test', description: 'Test', version: '1' },
  });
  const seen = { started: 0, leaving: 0, gone: 0 };
  app.addHook('onRequest', async (request, reply) => {
    // Like a guard that waits for the provider until the client has left.
    if (request.headers['x-leaves'] !== undefined) {
      seen.leaving += 1;
      await once(reply.raw, 'close');
      seen.gone += 1;
    }
    seen.started += 1;
  });
  const schema = { hide: true, body: {} };
  app.put('/', { onRequest: limitTransfers(2, 'files'), schema }, () => ({ ok: true }));
  const url = await app.listen({ port: 0, host: '127.0.0.1' });
  after(() => {
    app.server.closeAllConnections();
    return app.close();
  });
  return {
    seen,
    send: () =>
      fetch(url, { method: 'PUT', headers: { 'content-type': 'application/json' }, body: '{}' }),
    /** Writes the bytes of a request, or of a part of one. */
    begin: async (text: string): Promise<Socket> => {
      const socket = await openSocket(url);
      socket.write(text);
      return socket;
    },
  };
}

test('Transfers above the maximum are rejected until one ends', async () => {
  const { seen, send, begin } = await start();
  const part = `PUT / HTTP/1.1\r\n${HEAD}Content-Length: 2\r\n\r\n{`;
  const first = await begin(part);
  await begin(part);
  await until(() => seen.started === 2);

  const rejected = await send();
  assert.equal(rejected.status, commonProblem('unavailable').status);
  assert.equal(rejected.headers.get('retry-after'), '2');
  assert.match(await rejected.text(), /Too many files/);

  first.destroy();
  let status = 0;
  await until(async () => {
    status = (await send()).status;
    return status === 200;
  });
});

test('A client that leaves before its request is counted occupies no transfer', async () => {
  const { seen, send, begin } = await start();
  const leaving = [
    await begin(`PUT / HTTP/1.1\r\n${HEAD}X-Leaves: 1\r\nContent-Length: 2\r\n\r\n{}`),
    await begin(`PUT / HTTP/1.1\r\n${HEAD}X-Leaves: 1\r\nContent-Length: 2\r\n\r\n{`),
  ];
  await until(() => seen.leaving === leaving.length);
  for (const socket of leaving) socket.destroy();
  await until(() => seen.gone === leaving.length);
  assert.equal((await send()).status, 200);
});

test('A budget lasts for a minute from its first use', (t) => {
  let now = 1_000_000;
  t.mock.method(performance, 'now', () => now);
  const spend = perMinute(2);
  assert.deepEqual([spend(), spend(), spend(), spend()], [true, true, false, false]);
  now += 59_999;
  assert.ok(!spend());
  now += 1;
  assert.deepEqual([spend(), spend(), spend()], [true, true, false]);
});

test('Each key has its budget, and a rejection has the seconds until the next one', (t) => {
  let now = 1_000_000;
  t.mock.method(performance, 'now', () => now);
  const budgets = perMinuteOfEach(10);
  assert.equal(budgets.wait('a'), 0);
  budgets.spend('a', 9);
  now += 1500;
  assert.equal(budgets.wait('a'), 0);
  budgets.spend('a', 9);
  assert.deepEqual([budgets.wait('a'), budgets.wait('b')], [59, 0]);
  now += 58_499;
  assert.equal(budgets.wait('a'), 1);
  now += 1;
  assert.equal(budgets.wait('a'), 0);
});
