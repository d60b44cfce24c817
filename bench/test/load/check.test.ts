import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { after, test } from 'node:test';
import { checkAnswers } from '../../src/load/variant.ts';

const server = createServer((request, response) => {
  response.statusCode = request.url === '/out' ? 401 : 200;
  response.end(`you are ${request.headers.cookie}`);
});
server.listen(0, '127.0.0.1');
await once(server, 'listening');
after(() => server.close());
const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;

const ask = (path: string, cookie: string, expected: string) =>
  checkAnswers({ url }, [{ path, headers: { cookie }, expected }]);

test('an answer counts when it is 200 and about the user who asked', async () => {
  assert.deepEqual(await ask('/me', 'olena', 'olena'), []);
  assert.deepEqual(await ask('/me', 'olena', 'taras'), ['/me answered for somebody else']);
  assert.deepEqual(await ask('/out', 'olena', 'olena'), ['/out answered 401']);
});
