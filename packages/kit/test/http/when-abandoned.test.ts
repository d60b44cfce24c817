import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect } from 'node:net';
import { after, test } from 'node:test';
import { createLogger, createServer, listen, whenAbandoned } from '../../src/index.ts';

const app = await createServer({
  log: createLogger({ level: 'silent', service: 'test' }),
  bodyLimit: 1024,
  openapi: { title: 'Test', description: 'A test.', version: '1' },
});
const asked = Promise.withResolvers<void>();
const handled = Promise.withResolvers<AbortSignal>();
app.get('/', { schema: { hide: true } }, async (_request, reply) => {
  asked.resolve();
  // As a hook does that asks somewhere else who they are.
  await once(reply.raw, 'close');
  handled.resolve(whenAbandoned(reply));
  return {};
});
const url = new URL(await listen(app, { host: '127.0.0.1', port: 0, variable: 'PORT' }));
after(() => app.close());

test('of who has gone before it is asked for the signal is given at once', async () => {
  const socket = connect(Number(url.port), url.hostname);
  socket.write('GET / HTTP/1.1\r\nHost: test\r\n\r\n');
  await asked.promise;
  socket.destroy();
  assert.equal((await handled.promise).aborted, true);
});
