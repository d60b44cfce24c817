import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import fastify from 'fastify';
import { listen, StartError } from '../../src/index.ts';

const app = fastify();
after(() => app.close());
const url = await listen(app, { host: '127.0.0.1', port: 0, variable: 'SOME_PORT' });

test('the address is a URL that answers', async () => {
  assert.match(url, /^http:\/\/127\.0\.0\.1:\d+$/);
  assert.equal((await fetch(url)).status, 404);
});

const refusals: [name: string, host: string, port: number, said: RegExp][] = [
  ['a port in use', '127.0.0.1', Number(new URL(url).port), /is in use: .*SOME_PORT/],
  ["another machine's address", '192.0.2.1', 0, /Cannot listen on 192\.0\.2\.1.*SOME_PORT/],
  // A label has at most 63 letters, so that this is refused without asking anybody.
  ['a name that is no host', 'x'.repeat(64), 0, /Cannot listen on x+:0 .*SOME_PORT/],
];
for (const [name, host, port, said] of refusals) {
  test(`${name} is a start error that says what to do`, async () => {
    const other = fastify();
    await assert.rejects(listen(other, { host, port, variable: 'SOME_PORT' }), (error) => {
      assert.ok(error instanceof StartError);
      assert.match(error.message, said);
      return true;
    });
    await other.close();
  });
}
