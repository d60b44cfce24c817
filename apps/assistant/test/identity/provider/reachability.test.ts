import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { type AddressInfo, createServer as createTcpServer } from 'node:net';
import { test } from 'node:test';
import { createReachability } from '../../../src/identity/provider/reachability.ts';

test('an address is asked once a second, whoever asks meanwhile', async (context) => {
  let asked = 0;
  const server = createServer((_request, response) => {
    asked += 1;
    response.writeHead(404).end();
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  context.after(() => server.close());
  let now = 5000;
  const { port } = server.address() as AddressInfo;
  const findOutage = createReachability(`http://127.0.0.1:${port}`, () => now);

  assert.deepEqual(await Promise.all([findOutage(), findOutage(), findOutage()]), [
    undefined,
    undefined,
    undefined,
  ]);
  now += 999;
  assert.equal(await findOutage(), undefined);
  assert.equal(asked, 1);
  now += 1;
  assert.equal(await findOutage(), undefined);
  assert.equal(asked, 2);

  server.closeAllConnections();
  await new Promise((resolve) => {
    server.close(resolve);
  });
  assert.equal(await findOutage(), undefined, 'as it was less than a second ago');
  now += 1000;
  assert.equal(await findOutage(), 'ECONNREFUSED');
});

test('an address that accepts and never answers is named as late', async (context) => {
  const server = createTcpServer((socket) => socket.resume()).listen(0, '127.0.0.1');
  await once(server, 'listening');
  context.after(() => server.close());
  const { port } = server.address() as AddressInfo;
  assert.equal(await createReachability(`http://127.0.0.1:${port}`)(), 'no answer within 2 s');
});
