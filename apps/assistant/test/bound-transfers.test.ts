import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect } from 'node:net';
import { after, test } from 'node:test';
import { commonProblem, createLogger, createServer } from '@oselya/kit';
import { boundTransfers } from '../src/bound-transfers.ts';
import { until } from './helpers/until.ts';

test('more transfers at once than may be are told to come back, until one has ended or gone', async () => {
  const app = await createServer({
    log: createLogger({ level: 'silent', service: 'test' }),
    bodyLimit: 1024,
    openapi: { title: 'Test', description: 'Test', version: '1' },
  });
  let started = 0;
  const schema = { hide: true, body: {} };
  app.put('/', { onRequest: boundTransfers(2, 'files'), schema }, () => ({ ok: true }));
  app.addHook('onRequest', async () => {
    started += 1;
  });
  const url = await app.listen({ port: 0, host: '127.0.0.1' });
  after(() => {
    app.server.closeAllConnections();
    return app.close();
  });
  const { hostname, port } = new URL(url);
  const begin = async () => {
    const socket = connect(Number(port), hostname);
    await once(socket, 'connect');
    socket.write(
      'PUT / HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{',
    );
    return socket;
  };
  const send = () =>
    fetch(url, { method: 'PUT', headers: { 'content-type': 'application/json' }, body: '{}' });
  const first = await begin();
  await begin();
  await until(() => started === 2);

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
