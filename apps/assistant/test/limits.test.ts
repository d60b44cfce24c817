import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { after, test } from 'node:test';
import { commonProblem, createLogger, createServer } from '@oselya/kit';
import {
  createTally,
  limitPerUser,
  limitTransfers,
  perMinute,
  perMinuteOfEach,
} from '../src/limits.ts';
import { problem } from '../src/errors.ts';
import { until } from './helpers/until.ts';

const HEAD = 'Host: x\r\nContent-Type: application/json\r\n';

/** A server with two places for files, and one export for a user: Olena, unless `x-user` says who. */
async function start() {
  const app = await createServer({
    log: createLogger({ level: 'silent', service: 'test' }),
    bodyLimit: 1024,
    openapi: { title: 'Test', description: 'Test', version: '1' },
  });
  const seen = { started: 0, leaving: 0, gone: 0 };
  app.decorateRequest('user', null);
  app.addHook('onRequest', async (request, reply) => {
    request.user = { id: request.headers['x-user'] ?? 'u-olena' } as never;
    // As the guard does, where the provider takes longer than somebody stays.
    if (request.headers['x-leaves'] !== undefined) {
      seen.leaving += 1;
      await once(reply.raw, 'close');
      seen.gone += 1;
    }
    seen.started += 1;
  });
  const schema = { hide: true, body: {} };
  app.put('/', { onRequest: limitTransfers(2, 'files'), schema }, () => ({ ok: true }));
  const one = limitPerUser(1, () => problem('export_running'));
  app.get('/export', { onRequest: one, schema: { hide: true } }, () => ({ ok: true }));
  const url = await app.listen({ port: 0, host: '127.0.0.1' });
  after(() => {
    app.server.closeAllConnections();
    return app.close();
  });
  return {
    seen,
    send: () =>
      fetch(url, { method: 'PUT', headers: { 'content-type': 'application/json' }, body: '{}' }),
    take: () => fetch(`${url}/export`),
    /** Writes a request, or a part of one, as it goes over the wire. */
    begin: async (text: string): Promise<Socket> => {
      const { hostname, port } = new URL(url);
      const socket = connect(Number(port), hostname);
      await once(socket, 'connect');
      socket.write(text);
      return socket;
    },
  };
}

test('more transfers at once than may be are told to come back, until one has ended or gone', async () => {
  const { seen, send, begin } = await start();
  const part = `PUT / HTTP/1.1\r\n${HEAD}Content-Length: 2\r\n\r\n{`;
  const first = await begin(part);
  await begin(part);
  await until(() => seen.started === 2);

  const refused = await send();
  assert.equal(refused.status, commonProblem('unavailable').status);
  assert.equal(refused.headers.get('retry-after'), '2');
  assert.match(await refused.text(), /Too many files/);

  first.destroy();
  let status = 0;
  await until(async () => {
    status = (await send()).status;
    return status === 200;
  });
});

test('whoever goes before they are counted takes no place', async () => {
  const { seen, send, take, begin } = await start();
  const leaving = [
    await begin(`PUT / HTTP/1.1\r\n${HEAD}X-Leaves: 1\r\nContent-Length: 2\r\n\r\n{}`),
    await begin(`PUT / HTTP/1.1\r\n${HEAD}X-Leaves: 1\r\nContent-Length: 2\r\n\r\n{`),
    await begin('GET /export HTTP/1.1\r\nHost: x\r\nX-Leaves: 1\r\n\r\n'),
  ];
  await until(() => seen.leaving === leaving.length);
  for (const socket of leaving) socket.destroy();
  await until(() => seen.gone === leaving.length);
  assert.equal((await send()).status, 200);
  assert.equal((await take()).status, 200);
});

test('a budget is for a minute from its first use', (t) => {
  let now = 1_000_000;
  t.mock.method(performance, 'now', () => now);
  const spend = perMinute(2);
  assert.deepEqual([spend(), spend(), spend(), spend()], [true, true, false, false]);
  now += 59_999;
  assert.ok(!spend());
  now += 1;
  assert.deepEqual([spend(), spend(), spend()], [true, true, false]);
});

test('each key has a budget of its own for a minute, and is told how long to wait for the next', (t) => {
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

test('a tally counts by key and keeps nothing of a key without a count', () => {
  const tally = createTally();
  assert.equal(tally.of('a'), 0);
  assert.deepEqual([tally.add('a'), tally.add('a'), tally.add('b')], [1, 2, 1]);
  assert.deepEqual([tally.of('a'), tally.size], [2, 2]);
  tally.remove('a');
  tally.remove('b');
  assert.deepEqual([tally.of('a'), tally.of('b'), tally.size], [1, 0, 1]);
  tally.remove('a');
  tally.remove('unknown');
  assert.equal(tally.size, 0);
});
