import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type IncomingMessage, request } from 'node:http';
import { test } from 'node:test';
import { closings } from '@oselya/protocol';
import { refusal, SocketClient } from '../helpers/socket-client.ts';
import { HANDSHAKE, openSockets, ping, sid } from '../helpers/sockets.ts';
import { until } from '../helpers/until.ts';

for (const [origin, status] of [
  [undefined, 101],
  ['https://assistant.test', 101],
  ['own host', 101],
  ['null', 403],
  ['https://evil.test', 403],
  ['https://assistant.test.evil.test', 403],
  ['http://assistant.test', 403],
  ['https://assistant.test:8443', 403],
  ['own port, other host', 403],
  ['', 403],
] as const) {
  test(`a handshake with the origin ${origin} is ${status}`, async () => {
    const { url, sockets } = await openSockets({ types: { ping } });
    const given =
      origin === 'own host'
        ? url
        : origin === 'own port, other host'
          ? url.replace('127.0.0.1', 'localhost')
          : origin;
    const options = given === undefined ? {} : { headers: { origin: given } };
    if (status === 101) {
      const client = await SocketClient.open(url, options);
      assert.equal(await client.outcome({ type: 'ping' }), 'ok');
    } else {
      assert.deepEqual(await refusal(url, options), { status: 403, code: 'cross_site_request' });
      assert.equal(sockets.size.connections, 0);
    }
  });
}

test('a request that is no handshake is 426 and says what it takes', async () => {
  const { url } = await openSockets();
  const answer = await fetch(`${url}/ws`, { headers: { origin: 'https://evil.test' } });
  assert.equal(answer.status, 426);
  assert.equal(answer.headers.get('upgrade'), 'websocket');
  assert.equal(answer.headers.get('content-type'), 'application/problem+json');
  const body: unknown = await answer.json();
  assert.ok(typeof body === 'object' && body !== null && 'detail' in body);
  assert.match(String(body.detail), /WebSocket client/);
});

/** Sends a request that asks for another protocol, and gives the status of its answer. */
async function upgrade(
  url: string,
  { method = 'GET', headers = {}, body }: { method?: string; headers?: object; body?: string },
): Promise<number | undefined> {
  const sent = request(url, { method, headers: { connection: 'upgrade', ...headers } });
  sent.end(body);
  const [answer] = await Promise.race([once(sent, 'response'), once(sent, 'upgrade')]);
  answer.destroy();
  return answer.statusCode;
}

for (const [name, path, options, status] of [
  ['a handshake', '/ws', { headers: HANDSHAKE }, 101],
  ['a handshake with a query', '/ws?a=1', { headers: HANDSHAKE }, 101],
  ['a handshake in capitals', '/ws', { headers: { ...HANDSHAKE, upgrade: 'WebSocket' } }, 101],
  ['another version', '/ws', { headers: { ...HANDSHAKE, 'sec-websocket-version': '8' } }, 426],
  ['a short key', '/ws', { headers: { ...HANDSHAKE, 'sec-websocket-key': 'short' } }, 426],
  ['HTTP/2 without TLS', '/ws', { headers: { upgrade: 'h2c' } }, 426],
  ['a handshake by POST', '/ws', { method: 'POST', headers: HANDSHAKE }, 405],
  ['a handshake elsewhere', '/health/live', { headers: HANDSHAKE }, 404],
  ['HTTP/2 elsewhere', '/openapi.json', { headers: { upgrade: 'h2c' } }, 200],
  [
    'a body that asks to upgrade',
    '/echo',
    {
      method: 'POST',
      headers: { ...HANDSHAKE, 'content-type': 'application/json' },
      body: '{"a":1}',
    },
    200,
  ],
] as const) {
  test(`${name} is ${status}`, async () => {
    const { url } = await openSockets();
    assert.equal(await upgrade(url + path, options), status);
  });
}

test('an address has so many sockets and no more, until one of them closes', async () => {
  const { url, sockets } = await openSockets({ types: { ping }, caps: { perAddress: 2 } });
  const first = await SocketClient.open(url);
  await SocketClient.open(url);
  assert.deepEqual(await refusal(url), { status: 429, code: 'too_many_connections' });
  first.socket.close();
  await until(() => sockets.size.connections === 1);
  const third = await SocketClient.open(url);
  assert.equal(await third.outcome({ type: 'ping' }), 'ok');
});

test('an address without room is told how many it may have, and when to look again', async () => {
  const { url } = await openSockets({ caps: { perAddress: 2 } });
  for (let count = 0; count < 2; count += 1) await SocketClient.open(url);
  const { headers } = await handshakeFrom(url);
  assert.deepEqual(
    ['ratelimit-limit', 'ratelimit-remaining', 'ratelimit-reset', 'retry-after'].map(
      (name) => headers[name],
    ),
    ['2', '0', '60', '60'],
  );
});

test('IPv6 addresses of one network share its room, and so do two spellings of IPv4', async () => {
  const { url, sockets } = await openSockets({ types: { ping }, caps: { perAddress: 2 } });
  const first = await handshakeFrom(url, '2001:db8:1:2::1');
  for (const [address, status] of [
    ['2001:db8:1:2:ffff::2', 101],
    ['2001:db8:1:2:3:4:5:6', 429],
    ['2001:db8:1:3::1', 101],
    ['192.0.2.1', 101],
    ['::ffff:192.0.2.1', 101],
    ['192.0.2.1', 429],
    ['192.0.2.2', 101],
  ] as const) {
    const answer = await handshakeFrom(url, address);
    assert.equal(answer.statusCode, status, address);
  }
  assert.equal(sockets.size.addresses, 4);
  first.socket.destroy();
  await until(() => sockets.size.connections === 5);
  assert.equal((await handshakeFrom(url, '2001:db8:1:2::9')).statusCode, 101);
});

/** The answer to a handshake, as a trusted proxy passes it on. The socket stays open. */
async function handshakeFrom(url: string, address = '127.0.0.1'): Promise<IncomingMessage> {
  const headers = { connection: 'upgrade', ...HANDSHAKE, 'x-forwarded-for': address };
  const sent = request(`${url}/ws`, { headers });
  sent.end();
  const [answer]: IncomingMessage[] = await Promise.race([
    once(sent, 'response'),
    once(sent, 'upgrade'),
  ]);
  assert.ok(answer);
  return answer;
}

for (const [name, value] of [
  ['an unknown', sid('z')],
  ['a malformed', 'short'],
  ['an empty', ''],
] as const) {
  test(`${name} cookie closes the socket with 4401`, async () => {
    const { url, sockets } = await openSockets({ types: { ping } });
    const client = SocketClient.begin(url, { sid: value });
    assert.deepEqual(await client.closed, closings.signedOut);
    await until(() => sockets.size.connections === 0);
  });
}

test('no subprotocol is spoken, whatever a client offers', async () => {
  const { url } = await openSockets({ types: { ping } });
  const headers = {
    connection: 'upgrade',
    ...HANDSHAKE,
    'sec-websocket-protocol': 'chat, superchat',
  };
  const sent = request(`${url}/ws`, { headers });
  sent.end();
  const [answer] = await Promise.race([once(sent, 'response'), once(sent, 'upgrade')]);
  answer.destroy();
  assert.equal(answer.statusCode, 101);
  assert.equal(answer.headers['sec-websocket-protocol'], undefined);
});
