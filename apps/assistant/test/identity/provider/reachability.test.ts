import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
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
  const isReachable = createReachability(`http://127.0.0.1:${port}`, () => now);

  assert.deepEqual(await Promise.all([isReachable(), isReachable(), isReachable()]), [
    true,
    true,
    true,
  ]);
  now += 999;
  assert.equal(await isReachable(), true);
  assert.equal(asked, 1);
  now += 1;
  assert.equal(await isReachable(), true);
  assert.equal(asked, 2);

  server.closeAllConnections();
  await new Promise((resolve) => {
    server.close(resolve);
  });
  assert.equal(await isReachable(), true, 'as it was less than a second ago');
  now += 1000;
  assert.equal(await isReachable(), false);
});
