import assert from 'node:assert/strict';
import { once } from 'node:events';
import { request } from 'node:http';
import { after, test } from 'node:test';
import { createLogger, createServer, type ServerOptions } from '@oselya/kit';

async function listening(acceptsUpgrade?: ServerOptions['acceptsUpgrade']): Promise<string> {
  const app = await createServer({
    log: createLogger({ level: 'silent', service: 'test' }),
    bodyLimit: 1000,
    openapi: { title: 'Test', description: 'A test.', version: '1' },
    ...(acceptsUpgrade && { acceptsUpgrade }),
  });
  after(() => app.close());
  app.get('/tea', () => ({ tea: true }));
  // Whatever listens for upgrades would get every request that names another protocol.
  app.server.on('upgrade', (_request, socket) => {
    socket.end('HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: cup\r\n\r\n');
  });
  return app.listen({ port: 0, host: '127.0.0.1' });
}

/** The status of a request that asks for another protocol. */
async function statusOf(url: string, upgrade: string, hosts = ['x']): Promise<number | undefined> {
  const named = hosts.flatMap((host) => ['host', host]);
  const headers = [...named, 'connection', 'upgrade', 'upgrade', upgrade];
  const sent = request(`${url}/tea`, { headers }).end();
  const [answer] = await Promise.race([once(sent, 'response'), once(sent, 'upgrade')]);
  answer.destroy();
  return answer.statusCode;
}

test('a request is answered as if it had not asked for another protocol', async () => {
  const url = await listening();
  for (const protocol of ['h2c', 'websocket', 'cup']) {
    assert.equal(await statusOf(url, protocol), 200);
  }
});

test('it gets the protocol where that is accepted', async () => {
  const url = await listening(({ headers }) => headers.upgrade === 'cup');
  assert.equal(await statusOf(url, 'cup'), 101);
  assert.equal(await statusOf(url, 'h2c'), 200);
});

test('a request with several hosts gets no protocol, and is 400', async () => {
  const url = await listening(() => true);
  assert.equal(await statusOf(url, 'cup', ['a']), 101);
  assert.equal(await statusOf(url, 'cup', ['a', 'a']), 400);
});
