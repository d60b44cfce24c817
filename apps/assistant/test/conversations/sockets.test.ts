import assert from 'node:assert/strict';
import asyncapi from '@asyncapi/specs/schemas/3.0.0.json' with { type: 'json' };
import { reconnectDelayMs } from '@oselya/chat-client';
import formats from 'ajv-formats';
import { defineMessage } from '../../src/conversations/dispatch.ts';
import { createLiveUsers } from '../../src/conversations/live-users.ts';
import { socketLimits } from '../../src/conversations/socket.ts';
import { LEASE_MS } from '../../src/conversations/turns.ts';
import { errors } from '../../src/errors.ts';
import {
  clientKeys,
  document,
  keyOf,
  schemaErrorOf,
  serverKeys,
  type Message,
  type Payload,
} from '../helpers/asyncapi.ts';
import { SocketClient, handshakeRejection } from '../helpers/socket-client.ts';
import {
  HANDSHAKE,
  ScriptedIdentity,
  account,
  admin,
  answeredBySessions,
  gated,
  openSockets,
  own,
  ping,
  sid,
} from '../helpers/sockets.ts';
import { until } from '@oselya/testing';
import { ProblemError } from '@oselya/kit';
import { clientMessages, closeStatuses } from '@oselya/protocol';
import { Ajv } from 'ajv';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { request, type IncomingMessage } from 'node:http';
import { after, suite, test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { Type } from 'typebox';

const ORIGINS = [
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
] as const;

test('A handshake is accepted by its origin', async () => {
  const { url } = await openSockets({ types: { ping } });
  for (const [origin, status] of ORIGINS) {
    const requestOrigin =
      origin === 'own host'
        ? url
        : origin === 'own port, other host'
          ? url.replace('127.0.0.1', 'localhost')
          : origin;
    const options = requestOrigin === undefined ? {} : { headers: { origin: requestOrigin } };
    if (status === 101) {
      const client = await SocketClient.open(url, options);
      assert.equal(await client.outcome({ type: 'ping' }), 'ok');
    } else {
      assert.deepEqual(await handshakeRejection(url, options), {
        status: 403,
        code: 'cross_site_request',
      });
    }
  }
});

test('A request that is no handshake is 426 with the required protocol', async () => {
  const { url } = await openSockets();
  const answer = await fetch(`${url}/ws`, { headers: { origin: 'https://evil.test' } });
  assert.equal(answer.status, 426);
  assert.equal(answer.headers.get('upgrade'), 'websocket');
  assert.equal(answer.headers.get('content-type'), 'application/problem+json');
  const body: unknown = await answer.json();
  assert.ok(typeof body === 'object' && body !== null && 'detail' in body);
  assert.match(String(body.detail), /WebSocket client/);
});

/** Sends an upgrade request and returns the response status. */
async function requestUpgrade(
  url: string,
  { method = 'GET', headers = {}, body }: { method?: string; headers?: object; body?: string },
): Promise<number | undefined> {
  const sent = request(url, { method, headers: { connection: 'upgrade', ...headers } });
  sent.end(body);
  const [answer] = await Promise.race([once(sent, 'response'), once(sent, 'upgrade')]);
  answer.destroy();
  return answer.statusCode;
}

const REQUESTS = [
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
] as const;

test('Only a well-formed handshake for the path opens a socket', async () => {
  const { url } = await openSockets();
  for (const [name, path, options, status] of REQUESTS) {
    assert.equal(await requestUpgrade(url + path, options), status, name);
  }
});

test('An address has a maximum number of sockets, until one closes', async () => {
  const { url, sockets } = await openSockets({ types: { ping }, caps: { perAddress: 2 } });
  const firstClient = await SocketClient.open(url);
  await SocketClient.open(url);
  assert.deepEqual(await handshakeRejection(url), { status: 429, code: 'too_many_connections' });
  const { headers } = await handshakeFrom(url);
  assert.partialDeepStrictEqual(headers, {
    'ratelimit-limit': '2',
    'ratelimit-remaining': '0',
    'ratelimit-reset': '60',
    'retry-after': '60',
  });
  firstClient.socket.close();
  await until(() => sockets.size.connections === 1);
  const thirdClient = await SocketClient.open(url);
  assert.equal(await thirdClient.outcome({ type: 'ping' }), 'ok');
});

test('An IPv6 network counts as one address, and so do two spellings of IPv4', async () => {
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

/** Sends a handshake as a trusted proxy and returns the response. The socket stays open. */
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
  ['An unknown', sid('z')],
  ['A malformed', 'short'],
  ['An empty', ''],
] as const) {
  test(`${name} cookie closes the socket with 4401`, async () => {
    const { url, sockets } = await openSockets({ types: { ping } });
    const client = SocketClient.begin(url, { sid: value });
    assert.deepEqual(await client.closed, closeStatuses.signedOut);
    await until(() => sockets.size.connections === 0);
  });
}

const { answers } = clientMessages.ping;

test('An answer repeats the id of its message', async () => {
  const { url } = await openSockets({ types: { ping } });
  const client = await SocketClient.open(url);
  for (const id of ['1', '', 'ї'.repeat(128)]) client.send({ type: 'ping', id });
  client.send({ type: 'ping' });
  client.send({ type: 'ping', id: null });
  client.send({ type: 'nothing', id: '2' });
  await until(() => client.frames.length === 6);
  assert.deepEqual(
    client.frames.map(({ type, id, problem: error }) => [type, id, error?.code]),
    [
      ['pong', '1', undefined],
      ['pong', '', undefined],
      ['pong', 'ї'.repeat(128), undefined],
      ['pong', undefined, undefined],
      ['pong', undefined, undefined],
      ['error', '2', 'unknown_message_type'],
    ],
  );
});

test('Anything but a text frame with a typed JSON object is malformed', async () => {
  const { url } = await openSockets({ types: { ping } });
  const client = await SocketClient.open(url);
  const texts = ['', 'ping', '{', 'null', '1', '"ping"', '[]', '["type"]', '{}', '{"type":1}'];
  const frames = [...texts, '{"type":null}', '{"__proto__":{"type":"ping"}}', "{'type':'ping'}"];
  for (const frame of frames) client.send(frame);
  client.socket.send(Buffer.from('{"type":"ping"}'), { binary: true });
  await until(() => client.frames.length === frames.length + 1);
  assert.deepEqual(
    new Set(client.frames.map(({ problem: error }) => error?.code)),
    new Set(['malformed_message']),
  );
});

test('An error is a problem with the request id of the handshake', async () => {
  const { url } = await openSockets({ types: { ping } });
  const client = await SocketClient.open(url, { headers: { 'x-request-id': 'hand-1' } });
  const answer = await client.ask({ type: 'ping', surplus: 1, 'b\u0000': 2 });
  assert.deepEqual(answer.problem, {
    type: 'urn:oselya:error:validation_failed',
    title: 'Validation failed',
    status: 422,
    detail: 'A value breaks its rule. Correct what `errors` lists and send the request again.',
    code: 'validation_failed',
    request_id: 'hand-1',
    errors: [{ path: 'message', message: 'must not have additional properties: surplus, b\u0000' }],
  });
});

test('The permission is checked before the members', async () => {
  const namedMessage = defineMessage(
    { access: { permission: 'svc.tools.use' }, members: { name: Type.String() }, answers },
    (_, { answer }) => answer({ type: 'pong' }),
  );
  const { url, identity } = await openSockets({ types: { named: namedMessage } });
  identity.users.set(sid('a'), account('a', ['svc.tools.use']));
  identity.users.set(sid('b'), account('b'));
  const holder = await SocketClient.open(url, { sid: sid('a') });
  for (const name of [1, null, ['x'], undefined]) {
    assert.equal(await holder.outcome({ type: 'named', name }), 'validation_failed');
  }
  assert.equal(await holder.outcome({ type: 'named', name: 'x' }), 'ok');
  for (const id of [1.5, true, 'x'.repeat(129)]) {
    const before = holder.frames.length;
    holder.send({ type: 'named', name: 'x', id });
    await until(() => holder.frames.length > before);
    const answer = holder.frames.at(-1);
    assert.deepEqual([answer?.problem?.code, answer?.id], ['validation_failed', undefined]);
  }
  const otherClient = await SocketClient.open(url, { sid: sid('b') });
  assert.equal(await otherClient.outcome({ type: 'named', name: 1 }), 'permission_missing');
  const anonymous = await SocketClient.open(url);
  assert.equal(await anonymous.outcome({ type: 'named', name: 1 }), 'not_signed_in');
});

test('An optional member may be null', async () => {
  const seenMessages: unknown[] = [];
  const members = { name: Type.Optional(Type.String()), count: Type.Integer() };
  const countedMessage = defineMessage(
    { access: 'public', members, answers },
    (message, { answer }) => {
      seenMessages.push(message);
      answer({ type: 'pong' });
    },
  );
  const { url } = await openSockets({ types: { counted: countedMessage } });
  const client = await SocketClient.open(url);
  assert.equal(await client.outcome({ type: 'counted', name: null, count: 1 }), 'ok');
  assert.deepEqual(seenMessages, [{ type: 'counted', count: 1, id: 'ask-1' }]);
  for (const frame of [{ count: null }, { count: 1, surplus: null }, { count: 1, name: [null] }]) {
    assert.equal(await client.outcome({ type: 'counted', ...frame }), 'validation_failed');
  }
  client.send('{"type":"counted","count":1,"__proto__":null}');
  await until(() => client.frames.length === 5);
  assert.equal(client.frames.at(-1)?.problem?.code, 'validation_failed');
});

test('Messages are handled in order, one at a time', async () => {
  const { type, letGo } = gated();
  const { url } = await openSockets({ types: { ping, slow: type } });
  const client = await SocketClient.open(url);
  client.send({ type: 'slow', id: '1' });
  const laterReply = client.ask({ type: 'ping' });
  letGo();
  await laterReply;
  assert.deepEqual(
    client.frames.map(({ id }) => id),
    ['1', 'ask-1'],
  );
});

test('An unexpected error is logged, and does not close the socket', async () => {
  const brokenMessage = defineMessage(clientMessages.ping, () => {
    throw new Error('a secret of the inside');
  });
  const { url, lines } = await openSockets({ types: { broken: brokenMessage } });
  const client = await SocketClient.open(url);
  // Server errors do not count.
  for (let time = 0; time < 25; time += 1) {
    const answer = await client.ask({ type: 'broken' });
    assert.equal(answer.problem?.code, 'internal_error');
    assert.ok(!JSON.stringify(answer).includes('secret'));
  }
  assert.ok(lines.some((line) => line.includes('a secret of the inside')));
});

test('No cookie and no message is logged', async () => {
  const { url, identity, lines } = await openSockets({ types: { own } });
  identity.users.set(sid('a'), account('u-1'));
  const client = await SocketClient.open(url, { sid: sid('a') });
  await client.outcome({ type: 'own', surplus: 'private words' });
  client.send('private words');
  client.socket.close();
  await until(() => lines.some((line) => line.includes('socket closed')));
  assert.ok(!lines.some((line) => line.includes(sid('a')) || line.includes('private words')));
});

test('A user has a maximum number of sockets, over all sign-ins', async () => {
  const { url, sockets, identity } = await openSockets({ types: { own }, caps: { perUser: 2 } });
  for (const letter of ['a', 'b', 'c']) identity.users.set(sid(letter), account('u-1'));
  identity.users.set(sid('d'), account('u-2'));
  const first = await SocketClient.open(url, { sid: sid('a') });
  const second = await SocketClient.open(url, { sid: sid('b') });
  for (const client of [first, second]) assert.equal(await client.outcome({ type: 'own' }), 'ok');
  const third = await SocketClient.open(url, { sid: sid('c') });
  assert.equal((await third.closed).code, 4429);
  const otherUser = await SocketClient.open(url, { sid: sid('d') });
  assert.equal(await otherUser.outcome({ type: 'own' }), 'ok');
  first.socket.close();
  await until(() => sockets.size.connections === 2);
  const fourth = await SocketClient.open(url, { sid: sid('c') });
  assert.equal(await fourth.outcome({ type: 'own' }), 'ok');
});

const minuteCases = [
  ['errors', closeStatuses.tooManyErrors, { type: 'nothing' }],
  ['messages that are no JSON', closeStatuses.tooManyErrors, '{'],
  ['messages of signed-out clients', closeStatuses.signedOut, { type: 'own' }],
] as const;

for (const [name, closing, message] of minuteCases) {
  test(`More than 20 ${name} in a minute close the socket with ${closing.code}`, async () => {
    const { url } = await openSockets({ types: { own } });
    const client = await SocketClient.open(url);
    for (let sent = 1; sent <= 21; sent += 1) {
      client.send(message);
      await until(() => client.frames.length === sent);
    }
    assert.deepEqual(await client.closed, closing);
  });
}

test('More than 20 denied messages in a minute close the socket with 4403', async () => {
  const { url, identity } = await openSockets({ types: { admin } });
  identity.users.set(sid('a'), account('u-1'));
  const client = await SocketClient.open(url, { sid: sid('a') });
  for (let sent = 0; sent < 21; sent += 1) {
    assert.equal(await client.outcome({ type: 'admin' }), 'admin_only');
  }
  assert.deepEqual(await client.closed, closeStatuses.forbidden);
});

test('More than 240 messages in a minute close the socket with 4429', async () => {
  const { url } = await openSockets({ types: { ping } });
  const client = await SocketClient.open(url);
  for (let sent = 0; sent < 240; sent += 1) {
    assert.equal(await client.outcome({ type: 'ping' }), 'ok');
  }
  client.send({ type: 'ping' });
  assert.deepEqual(await client.closed, closeStatuses.tooManyMessages);
  assert.equal(client.frames.length, 240);
});

test('More than 32 waiting messages close the socket with 4429', async () => {
  const { type, letGo } = gated();
  const { url } = await openSockets({ types: { slow: type } });
  const client = await SocketClient.open(url);
  for (let sent = 0; sent < 34; sent += 1) client.send({ type: 'slow' });
  assert.deepEqual(await client.closed, closeStatuses.tooManyMessages);
  letGo();
});

test('A message of 64 KiB is accepted, and a larger one closes the socket with 1009', async () => {
  const { url } = await openSockets({ types: { ping } });
  const client = await SocketClient.open(url);
  const spaces = ' '.repeat(64 * 1024 - '{"type":"ping"}'.length);
  client.send(`{"type":"ping"}${spaces}`);
  await until(() => client.frames.length === 1);
  assert.equal(client.frames[0]?.type, 'pong');
  client.send(`{"type":"ping"} ${spaces}`);
  assert.equal((await client.closed).code, 1009);
});

test('A client that does not read is closed with 4429', async () => {
  const floodMessage = answeredBySessions('x'.repeat(256 * 1024), 200);
  const { url, registry } = await openSockets({ types: { flood: floodMessage } });
  const client = await SocketClient.open(url);
  client.socket.pause();
  client.send({ type: 'flood' });
  await until(async () => (await registry.metrics()).includes('{type="flood",outcome="ok"} 1'));
  client.socket.resume();
  assert.deepEqual(await client.closed, closeStatuses.tooSlow);
  assert.ok(client.frames.length < 200, String(client.frames.length));
});

test('A client that answers no ping is closed after the second', async () => {
  const { url, sockets } = await openSockets({ types: { ping }, limits: { pingIntervalMs: 20 } });
  const deadClient = await SocketClient.open(url, { autoPong: false });
  const liveClient = await SocketClient.open(url);
  let pings = 0;
  liveClient.socket.on('ping', () => {
    pings += 1;
  });
  assert.equal((await deadClient.closed).code, 1006);
  await until(() => pings >= 5);
  assert.equal(await liveClient.outcome({ type: 'ping' }), 'ok');
  assert.equal(sockets.size.connections, 1);
});

test('A shutdown closes all sockets with 1012 and waits for messages in progress', async () => {
  const { type, letGo } = gated();
  const { app, url, sockets } = await openSockets({
    types: { ping, slow: type },
    limits: { shutdownMs: 60_000 },
  });
  const clients = await Promise.all(Array.from({ length: 5 }, () => SocketClient.open(url)));
  clients[0]?.send({ type: 'slow' });
  await clients[1]?.outcome({ type: 'ping' });
  const closing = app.close();
  for (const client of clients) assert.deepEqual(await client.closed, closeStatuses.restarting);
  await until(() => sockets.size.connections === 0);
  const outcome = await Promise.race([closing.then(() => 'closed'), runIterations(100)]);
  assert.equal(outcome, 'in progress');
  letGo();
  await closing;
});

/** Waits for a number of event loop iterations. */
async function runIterations(count: number): Promise<string> {
  for (let turn = 0; turn < count; turn += 1) await setImmediate();
  return 'in progress';
}

test('A client that does not answer the close does not delay the shutdown', async () => {
  const { app, url } = await openSockets({
    limits: { shutdownMs: 50, closeTimeoutMs: 60_000 },
  });
  const sent = request(`${url}/ws`, { headers: { connection: 'upgrade', ...HANDSHAKE } });
  sent.end();
  const [, socket] = await once(sent, 'upgrade');
  const socketClosed = once(socket, 'close');
  socket.on('error', () => undefined);
  let hasClosed = false;
  const closing = app.close().finally(() => {
    hasClosed = true;
  });
  await until(() => hasClosed);
  await closing;
  socket.resume();
  await socketClosed;
});

test('Closed sockets leave no state', async () => {
  const { url, sockets, identity, app } = await openSockets({ types: { ping, own } });
  identity.users.set(sid('a'), account('u-1'));
  const connections = () =>
    new Promise<number>((resolve, reject) => {
      app.server.getConnections((error, count) => (error ? reject(error) : resolve(count)));
    });
  for (let round = 0; round < 20; round += 1) {
    const clients = await Promise.all(
      Array.from({ length: 10 }, (_, n) =>
        SocketClient.open(url, n % 2 === 0 ? {} : { sid: n === 1 ? sid('z') : sid('a') }),
      ),
    );
    for (const [n, client] of clients.entries()) {
      if (n % 3 === 0) client.socket.close();
      else client.socket.terminate();
    }
    await Promise.all(clients.map(({ closed }) => closed));
  }
  const emptySizes = { connections: 0, addresses: 0, users: 0, sessions: 0 };
  await until(() => JSON.stringify(sockets.size) === JSON.stringify(emptySizes));
  await until(async () => (await connections()) === 0);
});

test('Metrics count sockets, messages and closes', async () => {
  const { url, identity, registry } = await openSockets({ types: { ping, own } });
  identity.users.set(sid('a'), account('u-1'));
  const metrics = () => registry.metrics();
  const client = await SocketClient.open(url, { sid: sid('a') });
  const anonymous = await SocketClient.open(url);
  assert.match(await metrics(), /assistant_sockets\{state="signed_in"\} 1/);
  assert.match(await metrics(), /assistant_sockets\{state="anonymous"\} 1/);
  await client.outcome({ type: 'own' });
  await anonymous.outcome({ type: 'own' });
  await anonymous.outcome({ type: 'made up by a client' });
  client.socket.close(4999);
  anonymous.socket.close(1000);
  await until(async () => (await metrics()).includes('state="signed_in"} 0'));
  await until(async () => (await metrics()).includes('state="anonymous"} 0'));
  const text = await metrics();
  for (const line of [
    'assistant_socket_messages_total{type="own",outcome="ok"} 1',
    'assistant_socket_messages_total{type="own",outcome="not_signed_in"} 1',
    'assistant_socket_messages_total{type="unknown",outcome="unknown_message_type"} 1',
    'assistant_socket_closes_total{code="other"} 1',
    'assistant_socket_closes_total{code="1000"} 1',
  ]) {
    assert.ok(text.includes(line), line);
  }
});

/** Creates live users for signed-in sessions. */
function liveUsers(sessions: string[], limits: Partial<typeof socketLimits> = {}) {
  const identity = new ScriptedIdentity();
  for (const id of sessions) identity.users.set(id, account(`u-${id}`));
  const warnings: object[] = [];
  const users = createLiveUsers({
    resolve: identity.resolve,
    findActive: identity.findActive,
    limits: { ...socketLimits, ...limits },
    log: { warn: (line: object) => void warnings.push(line) },
  });
  after(users.stop);
  const ended: string[] = [];
  const watchUser = (id: string) =>
    users.watchUser(id, { onResolved: () => undefined, onSignedOut: () => ended.push(id) });
  return { identity, users, ended, watchUser, warnings };
}

const isProblem = (code: string) => (error: unknown) =>
  error instanceof ProblemError && error.code === code;

const NEVER_MS = 1_000_000;

test('A user is resolved once for the messages of 30 s', async (t) => {
  let currentTime = 1_000_000;
  t.mock.method(performance, 'now', () => currentTime);
  const { identity, watchUser } = liveUsers(['a'], { sweepIntervalMs: NEVER_MS });
  const session = watchUser('a');
  assert.equal((await session.current()).id, 'u-a');
  currentTime += 30_000;
  await session.current();
  assert.equal(identity.resolutions, 1);
  currentTime += 1;
  await session.current();
  assert.equal(identity.resolutions, 2);
});

test('A message after a sign-out is rejected, even without a notification', async () => {
  const { identity, ended, watchUser } = liveUsers(['a'], { sweepIntervalMs: NEVER_MS });
  const session = watchUser('a');
  await session.current();
  identity.users.clear();
  await assert.rejects(session.current(), isProblem('not_signed_in'));
  assert.deepEqual(ended, ['a']);
});

test('A failed resolution is retried after 5 s and logged once', async (t) => {
  let currentTime = 1_000_000;
  t.mock.method(performance, 'now', () => currentTime);
  const { identity, watchUser, warnings } = liveUsers(['a', 'b', 'c'], { sweepIntervalMs: 5 });
  identity.failure = new Error('The provider is unavailable');
  watchUser('a');
  watchUser('b');
  await until(() => warnings.length === 1);
  // The third resolution shows that the sweep skips the first two users.
  watchUser('c');
  await until(() => warnings.length === 2);
  currentTime += 5000;
  await until(() => warnings.length === 3);
  assert.equal(identity.resolutions, 6);
  assert.partialDeepStrictEqual(warnings, [{ sessions: 2 }, { sessions: 1 }, { sessions: 3 }]);
});

test('Idle users are resolved again, a few at a time', async () => {
  const names = Array.from({ length: 40 }, (_, n) => String(n));
  const { identity, ended, watchUser } = liveUsers(names, {
    userMaxAgeMs: 100,
    sweepIntervalMs: 5,
    sweepConcurrency: 3,
    sweepShare: 0,
  });
  for (const name of names) watchUser(name);
  await until(() => identity.resolutions > 200);
  assert.ok(identity.most <= 3, String(identity.most));
  for (const name of names.slice(0, 10)) identity.users.delete(name);
  await until(() => ended.length === 10);
});

suite('protocol', async () => {
  const { operations, components } = document;
  const messages = Object.entries(components.messages);

  test('The document is valid AsyncAPI 3.0', () => {
    // The official schema embeds the JSON Schema meta-schema.
    const ajv = new Ajv({ strict: false, meta: false, validateSchema: false });
    formats.default(ajv);
    const validate = ajv.compile(asyncapi);
    assert.ok(validate(document), ajv.errorsText(validate.errors));
  });

  test('Every message is described, with valid examples', () => {
    for (const [key, { description, examples }] of messages) {
      assert.match(description, /\S.*\.$/, key);
      assert.ok(examples.length > 0, key);
      for (const { payload } of examples) assert.equal(schemaErrorOf(key, payload), undefined);
    }
  });

  test('Every message of clients is received with its permission', () => {
    const definitions = clientMessages;
    assert.deepEqual(clientKeys.toSorted(), Object.keys(definitions).toSorted());
    for (const [type, { access }] of Object.entries(definitions)) {
      const operation = operations[type];
      assert.deepEqual(operation?.['x-access'], access, type);
      assert.equal(operation?.security === undefined, access === 'public', type);
    }
  });

  test('Every message of the server is an answer or an event', () => {
    const sent = new Set<string>();
    for (const [name, { messages: others, reply }] of Object.entries(operations)) {
      const keys = (reply?.messages ?? []).map(keyOf);
      if (clientKeys.includes(name)) assert.ok(keys.includes('error'), name);
      else keys.push(...others.map(keyOf));
      for (const answer of keys) sent.add(answer);
    }
    assert.deepEqual([...sent].toSorted(), serverKeys.toSorted());
  });

  const page = await readFile(new URL('../../../../docs/protocol.md', import.meta.url), 'utf8');
  const [, messageSection = ''] = page.split(/^## Messages$/m);

  /** Rows of the message tables, in document order. */
  const [sent = [], replies = [], events = [], sessionEvents = []] = messageSection
    .replace(/^## [^]*/m, '')
    .split(/^\| -.*$/m)
    .slice(1)
    .map((table) =>
      Array.from(table.matchAll(/^\| `([^`]+)` +\|(.*)\|$/gm), ([, type = '', cells = '']) => ({
        type,
        cells: cells.split('|').map((cell) => cell.trim()),
      })),
    );

  const POSITION_MEMBERS = ['session_id', 'turn_id', 'seq'];
  const eventMessages = new Set(document.operations['events']?.messages.map(keyOf));
  const isEvent = (key: string) => eventMessages.has(key);
  const isInTurn = (key: string) => messageOf(key).payload.required.includes('seq');
  const answerKeys = serverKeys.filter((key) => !isEvent(key));
  const eventKeys = serverKeys.filter((key) => isEvent(key) && isInTurn(key));
  const besideKeys = serverKeys.filter((key) => isEvent(key) && !isInTurn(key));

  function messageOf(key: string): Message {
    const message = document.components.messages[key];
    assert.ok(message, `${key} is not in the document`);
    return message;
  }

  /** Returns the members that a cell lists, such as `name`, `name?` or `name {a, b}`, without bracketed comments. */
  const parseMembers = (cell: string) =>
    Array.from(cell.replaceAll(/\(.*?\)/g, '').matchAll(/`([^`]+)`/g), ([, name = '']) => name);

  /** Returns the schema members that the tables list. */
  const listMembers = ({ properties, required }: Payload, without: readonly string[]) =>
    Object.entries(properties)
      .filter(([name]) => !without.includes(name))
      .map(([name, { properties: inner }]) => {
        const memberText = required.includes(name) ? name : `${name}?`;
        return inner === undefined
          ? memberText
          : `${memberText} {${Object.keys(inner).join(', ')}}`;
      });

  test('docs/protocol.md lists every message with its members', () => {
    for (const [rows, keys, without] of [
      [sent, clientKeys, ['type', 'id']],
      [replies, answerKeys, ['type', 'id']],
      [events, eventKeys, ['type', 'id', ...POSITION_MEMBERS]],
      [sessionEvents, besideKeys, ['type']],
    ] as const) {
      assert.deepEqual(
        rows.map(({ type, cells: [members = ''] }) => [type, parseMembers(members)]),
        keys.map((key) => {
          const { name, payload } = messageOf(key);
          return [name, listMembers(payload, without)];
        }),
      );
    }
  });

  test('docs/protocol.md names the permission of every message', () => {
    const requirements = new Map(sent.map(({ type, cells }) => [type, cells[1] ?? '']));
    for (const [type, requirement] of requirements) {
      const [, other] = /^as `(.*)`$/.exec(requirement) ?? [];
      const cell = other === undefined ? requirement : String(requirements.get(other));
      const access = document.operations[type]?.['x-access'];
      assert.equal(cell === 'nothing', access === 'public', type);
      const [permission] = /svc\.\w+\.\w+/.exec(cell) ?? [];
      assert.equal(permission, Reflect.get(Object(access), 'permission'), type);
    }
  });

  test('docs/protocol.md lists the errors with their statuses', () => {
    const [, errorSection = ''] = page.split(/^## Errors$/m);
    const [table = ''] = errorSection.split(/^## /m);
    const rows = Array.from(table.matchAll(/^\| `(\w+)` +\| (\d+) +\|/gm), ([, code, status]) => [
      code,
      Number(status),
    ]);
    const knownStatuses = new Map<string, number>(
      Object.entries(errors).map(([code, { status }]) => [code, status]),
    );
    assert.ok(rows.length > 20);
    assert.deepEqual(
      rows,
      rows.map(([code]) => [code, knownStatuses.get(String(code))]),
    );
  });

  test('docs/protocol.md lists every close code', () => {
    const [, closeSection = ''] = page.split(/^## Close codes$/m);
    const [rows = ''] = closeSection.split(/^## /m);
    const codes = Array.from(rows.matchAll(/`(\d{4})`(?=[^\n]*\|[^\n]*\|[^\n]*\|)/g), ([, code]) =>
      Number(code),
    );
    for (const { code } of Object.values(closeStatuses))
      assert.ok(codes.includes(code), String(code));
    const finalCodes = codes.filter((code) => reconnectDelayMs(code, 0) === null);
    assert.deepEqual(finalCodes, [4401, 4403, 1002, 1007, 1000, 1001]);
    assert.ok([0, 1, 9].every((attempt) => Number(reconnectDelayMs(4429, attempt)) >= 60_000));
    assert.ok([0, 1, 9].every((attempt) => Number(reconnectDelayMs(1006, attempt)) <= 30_000));
  });

  test('docs/protocol.md states the limits', () => {
    for (const [limit, value] of [
      ['Size of a message', `${socketLimits.maxMessageBytes / 1024} KiB`],
      ['Messages per minute', String(socketLimits.messagesPerMinute)],
      ['Waiting messages', String(socketLimits.maxQueuedMessages)],
      ['Messages in error per minute', String(socketLimits.errorsPerMinute)],
      ['Unread data', `${socketLimits.maxBufferedBytes / 1024 ** 2} MiB`],
    ] as const) {
      assert.match(page, new RegExp(`^\\| ${limit} +\\| ${value} +\\|`, 'm'));
    }
    assert.ok(page.includes(`ping every ${socketLimits.pingIntervalMs / 1000} s`));
    assert.ok(page.includes(`${LEASE_MS / 1000} s after the process has died`));
  });
});
