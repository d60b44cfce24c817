import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { after, test } from 'node:test';
import { commonProblem, createLogger, createServer } from '@oselya/kit';
import { boundPerUser, boundTransfers } from '../../src/access/transfers.ts';
import { problem } from '../../src/errors.ts';
import { until } from '../helpers/until.ts';

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
  app.put('/', { onRequest: boundTransfers(2, 'files'), schema }, () => ({ ok: true }));
  const one = boundPerUser(1, () => problem('export_running'));
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
