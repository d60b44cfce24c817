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
  getKey,
  findSchemaError,
  serverKeys,
  type Message,
  type Payload,
} from '../helpers/asyncapi.ts';
import { createUser } from '../helpers/people.ts';
import { SocketClient } from '../helpers/socket-client.ts';
import {
  HANDSHAKE,
  ScriptedIdentity,
  adminMessage,
  createGatedMessage,
  openSockets,
  userMessage,
  pingMessage,
  createSessionId,
} from '../helpers/sockets.ts';
import { until } from '@oselya/testing';
import { clientMessages, closeStatuses } from '@oselya/protocol';
import { Ajv } from 'ajv';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { request, type IncomingMessage } from 'node:http';
import { text } from 'node:stream/consumers';
import { after, suite, test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { promisify } from 'node:util';

test('A handshake is accepted by its origin', async () => {
  const { url } = await openSockets();
  for (const [origin, status] of [
    [undefined, 101],
    ['https://assistant.test', 101],
    [url, 101],
    ['null', 403],
    ['https://evil.test', 403],
    ['https://assistant.test.evil.test', 403],
    ['http://assistant.test', 403],
    ['https://assistant.test:8443', 403],
    [url.replace('127.0.0.1', 'localhost'), 403],
    ['', 403],
  ] as const) {
    const headers = { ...HANDSHAKE, ...(origin !== undefined && { origin }) };
    const response = await requestUpgrade(`${url}/ws`, { headers });
    assert.equal(response.statusCode, status, origin);
    if (status === 403) assert.match(await text(response), /"cross_site_request"/);
    response.destroy();
  }
});

/** Sends an upgrade request and returns the response. The socket stays open. */
async function requestUpgrade(
  url: string,
  { method = 'GET', headers = {}, body }: { method?: string; headers?: object; body?: string },
): Promise<IncomingMessage> {
  const options = { method, headers: { connection: 'upgrade', ...headers }, agent: false };
  const clientRequest = request(url, options);
  clientRequest.end(body);
  const [response] = await Promise.race([
    once(clientRequest, 'response'),
    once(clientRequest, 'upgrade'),
  ]);
  return response;
}

const UPGRADE_POST = {
  method: 'POST',
  headers: { ...HANDSHAKE, 'content-type': 'application/json' },
  body: '{"a":1}',
};

const REQUESTS = [
  ['a handshake', '/ws', { headers: HANDSHAKE }, 101],
  ['a handshake with a query', '/ws?a=1', { headers: HANDSHAKE }, 101],
  ['a handshake in capitals', '/ws', { headers: { ...HANDSHAKE, upgrade: 'WebSocket' } }, 101],
  ['no handshake', '/ws', { headers: { connection: 'close', origin: 'https://evil.test' } }, 426],
  ['another version', '/ws', { headers: { ...HANDSHAKE, 'sec-websocket-version': '8' } }, 426],
  ['a short key', '/ws', { headers: { ...HANDSHAKE, 'sec-websocket-key': 'short' } }, 426],
  ['HTTP/2 without TLS', '/ws', { headers: { upgrade: 'h2c' } }, 426],
  ['a handshake by POST', '/ws', { method: 'POST', headers: HANDSHAKE }, 405],
  ['a handshake elsewhere', '/health/live', { headers: HANDSHAKE }, 404],
  ['HTTP/2 elsewhere', '/openapi.json', { headers: { upgrade: 'h2c' } }, 200],
  ['a body that asks to upgrade', '/echo', UPGRADE_POST, 200],
] as const;

test('Only a well-formed handshake for the path opens a socket', async () => {
  const { url } = await openSockets();
  for (const [name, path, options, status] of REQUESTS) {
    const response = await requestUpgrade(url + path, options);
    assert.equal(response.statusCode, status, name);
    if (status === 426) assert.equal(response.headers.upgrade, 'websocket', name);
    response.destroy();
  }
});

test('An address or IPv6 network has a maximum number of sockets, until one closes', async () => {
  const { url, sockets } = await openSockets({ caps: { perAddress: 2 } });
  const requestHandshake = (address: string) =>
    requestUpgrade(`${url}/ws`, { headers: { ...HANDSHAKE, 'x-forwarded-for': address } });
  const first = await requestHandshake('2001:db8:1:2::1');
  for (const [address, status] of [
    ['2001:db8:1:2:ffff::2', 101],
    ['2001:db8:1:2:3:4:5:6', 429],
    ['2001:db8:1:3::1', 101],
    ['192.0.2.1', 101],
    ['::ffff:192.0.2.1', 101],
    ['192.0.2.1', 429],
    ['192.0.2.2', 101],
  ] as const) {
    const response = await requestHandshake(address);
    assert.equal(response.statusCode, status, address);
    if (status === 101) continue;
    assert.match(await text(response), /"too_many_connections"/);
    assert.partialDeepStrictEqual(response.headers, {
      'ratelimit-limit': '2',
      'ratelimit-remaining': '0',
      'ratelimit-reset': '60',
      'retry-after': '60',
    });
  }
  assert.equal(sockets.size.addresses, 4);
  first.socket.destroy();
  await until(() => sockets.size.connections === 5);
  assert.equal((await requestHandshake('2001:db8:1:2::9')).statusCode, 101);
});

test('An unknown, malformed or empty cookie closes the socket with 4401', async () => {
  const { url, sockets } = await openSockets({ types: { ping: pingMessage } });
  for (const value of [createSessionId('z'), 'short', '']) {
    const client = SocketClient.begin(url, { sid: value });
    assert.deepEqual(await client.closed, closeStatuses.signedOut);
    await until(() => sockets.size.connections === 0);
  }
});

test('An answer repeats the valid ID of its message', async () => {
  const { url } = await openSockets({ types: { ping: pingMessage } });
  const client = await SocketClient.open(url);
  const longId = 'ї'.repeat(128);
  for (const id of ['1', '', longId, undefined, null]) client.send({ type: 'ping', id });
  client.send({ type: 'nothing', id: '2' });
  for (const id of [1.5, true, 'x'.repeat(129)]) client.send({ type: 'ping', id });
  await until(() => client.frames.length === 9);
  assert.deepEqual(
    client.frames.map(({ id, type, problem }) => [id, problem?.code ?? type]),
    [
      ...['1', '', longId, undefined, undefined].map((id) => [id, 'pong']),
      ['2', 'unknown_message_type'],
      ...Array.from({ length: 3 }, () => [undefined, 'validation_failed']),
    ],
  );
});

test('Anything but a text frame with a typed JSON object is malformed', async () => {
  const { url } = await openSockets({ types: { ping: pingMessage } });
  const client = await SocketClient.open(url);
  const texts = ['', 'ping', '{', 'null', '1', '"ping"', '[]', '["type"]', '{}', '{"type":1}'];
  const frames = [...texts, '{"type":null}', '{"__proto__":{"type":"ping"}}', "{'type':'ping'}"];
  for (const frame of frames) client.send(frame);
  client.socket.send(Buffer.from('{"type":"ping"}'), { binary: true });
  await until(() => client.frames.length === frames.length + 1);
  for (const { problem } of client.frames) assert.equal(problem?.code, 'malformed_message');
});

test('An error is a problem with the request ID of the handshake', async () => {
  const { url } = await openSockets({ types: { ping: pingMessage } });
  const client = await SocketClient.open(url, { headers: { 'x-request-id': 'hand-1' } });
  const answer = await client.ask({ type: 'ping', surplus: 1, 'b\u0000': 2 });
  assert.deepEqual(answer.problem, {
    type: 'urn:oselya:error:validation_failed',
    title: 'Validation failed',
    status: 422,
    detail:
      'A value violates a rule. Correct the values that `errors` lists, then send the request again.',
    code: 'validation_failed',
    request_id: 'hand-1',
    errors: [{ path: 'message', message: 'must not have additional properties: surplus, b\u0000' }],
  });
});

test('Messages are handled in order, one at a time', async () => {
  const { type, release } = createGatedMessage();
  const { url } = await openSockets({ types: { ping: pingMessage, slow: type } });
  const client = await SocketClient.open(url);
  client.send({ type: 'slow', id: '1' });
  const laterReply = client.ask({ type: 'ping' });
  release();
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
  // Server errors do not count towards the error limit.
  for (let time = 0; time < 25; time += 1) {
    const answer = await client.ask({ type: 'broken' });
    assert.equal(answer.problem?.code, 'internal_error');
    assert.ok(!JSON.stringify(answer).includes('secret'));
  }
  assert.ok(lines.some((line) => line.includes('a secret of the inside')));
});

test('No cookie and no message is logged', async () => {
  const { url, identity, lines } = await openSockets({ types: { own: userMessage } });
  identity.users.set(createSessionId('a'), createUser('u-1'));
  const client = await SocketClient.open(url, { sid: createSessionId('a') });
  await client.outcome({ type: 'own', surplus: 'private words' });
  client.send('private words');
  client.socket.close();
  await until(() => lines.some((line) => line.includes('socket closed')));
  assert.ok(
    !lines.some((line) => line.includes(createSessionId('a')) || line.includes('private words')),
  );
});

test('A user has a maximum number of sockets, over all sign-ins', async () => {
  const { url, sockets, identity } = await openSockets({
    types: { own: userMessage },
    caps: { perUser: 2 },
  });
  for (const letter of ['a', 'b', 'c'])
    identity.users.set(createSessionId(letter), createUser('u-1'));
  identity.users.set(createSessionId('d'), createUser('u-2'));
  const open = (letter: string) => SocketClient.open(url, { sid: createSessionId(letter) });
  const [firstClient, secondClient] = [await open('a'), await open('b')];
  for (const client of [firstClient, secondClient]) {
    assert.equal(await client.outcome({ type: 'own' }), 'ok');
  }
  assert.equal((await (await open('c')).closed).code, 4429);
  assert.equal(await (await open('d')).outcome({ type: 'own' }), 'ok');
  firstClient.socket.close();
  await until(() => sockets.size.connections === 2);
  assert.equal(await (await open('c')).outcome({ type: 'own' }), 'ok');
});

const errorCases = [
  ['errors', closeStatuses.tooManyErrors, { type: 'nothing' }, {}],
  ['messages that are not JSON', closeStatuses.tooManyErrors, '{', {}],
  ['messages of signed-out clients', closeStatuses.signedOut, { type: 'own' }, {}],
  ['denied messages', closeStatuses.forbidden, { type: 'admin' }, { sid: createSessionId('a') }],
] as const;

for (const [name, closeStatus, message, options] of errorCases) {
  test(`More than 20 ${name} in a minute close the socket with ${closeStatus.code}`, async () => {
    const { url, identity } = await openSockets({
      types: { own: userMessage, admin: adminMessage },
    });
    identity.users.set(createSessionId('a'), createUser('u-1'));
    const client = await SocketClient.open(url, options);
    for (let count = 1; count <= 21; count += 1) {
      client.send(message);
      await until(() => client.frames.length === count);
    }
    assert.deepEqual(await client.closed, closeStatus);
  });
}

test('More than 240 messages in a minute close the socket with 4429', async () => {
  const { url } = await openSockets({ types: { ping: pingMessage } });
  const client = await SocketClient.open(url);
  for (let sentCount = 0; sentCount < 240; sentCount += 1) {
    assert.equal(await client.outcome({ type: 'ping' }), 'ok');
  }
  client.send({ type: 'ping' });
  assert.deepEqual(await client.closed, closeStatuses.tooManyMessages);
  assert.equal(client.frames.length, 240);
});

test('More than 32 waiting messages close the socket with 4429', async () => {
  const { type, release } = createGatedMessage();
  const { url } = await openSockets({ types: { slow: type } });
  const client = await SocketClient.open(url);
  for (let sentCount = 0; sentCount < 34; sentCount += 1) client.send({ type: 'slow' });
  assert.deepEqual(await client.closed, closeStatuses.tooManyMessages);
  release();
});

test('A message of 64 KiB is accepted, and a larger one closes the socket with 1009', async () => {
  const { url } = await openSockets({ types: { ping: pingMessage } });
  const client = await SocketClient.open(url);
  const spaces = ' '.repeat(64 * 1024 - '{"type":"ping"}'.length);
  client.send(`{"type":"ping"}${spaces}`);
  await until(() => client.frames.length === 1);
  assert.equal(client.frames[0]?.type, 'pong');
  client.send(`{"type":"ping"} ${spaces}`);
  assert.equal((await client.closed).code, 1009);
});

function getMessage(key: string): Message {
  const message = document.components.messages[key];
  assert.ok(message, `${key} is not in the document`);
  return message;
}

test('A client that does not read is closed with 4429', async () => {
  const [{ payload } = assert.fail()] = getMessage('session.opened').examples;
  const message = { id: 'm', role: 'user', content: 'x'.repeat(256 * 1024), created_at: null };
  const { answers } = clientMessages['session.open'];
  const floodMessage = defineMessage({ access: 'public', members: {}, answers }, (_, reply) => {
    for (let index = 0; index < 200; index += 1) {
      reply.answer({ ...payload, messages: [message] } as never);
    }
  });
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
  const { url, sockets } = await openSockets({
    types: { ping: pingMessage },
    limits: { pingIntervalMs: 20 },
  });
  const deadClient = await SocketClient.open(url, { autoPong: false });
  const liveClient = await SocketClient.open(url);
  let pingCount = 0;
  liveClient.socket.on('ping', () => {
    pingCount += 1;
  });
  assert.equal((await deadClient.closed).code, 1006);
  await until(() => pingCount >= 5);
  assert.equal(await liveClient.outcome({ type: 'ping' }), 'ok');
  assert.equal(sockets.size.connections, 1);
});

test('A shutdown closes all sockets with 1012 and waits for messages in progress', async () => {
  const { type, release } = createGatedMessage();
  const { app, url, sockets } = await openSockets({
    types: { ping: pingMessage, slow: type },
    limits: { shutdownMs: 60_000 },
  });
  const clients = await Promise.all(Array.from({ length: 5 }, () => SocketClient.open(url)));
  clients[0]?.send({ type: 'slow' });
  await clients[1]?.outcome({ type: 'ping' });
  const closePromise = app.close();
  for (const client of clients) assert.deepEqual(await client.closed, closeStatuses.restarting);
  await until(() => sockets.size.connections === 0);
  let hasClosed = false;
  void closePromise.then(() => (hasClosed = true));
  for (let iteration = 0; iteration < 100; iteration += 1) await setImmediate();
  assert.ok(!hasClosed);
  release();
  await closePromise;
});

test('A client that does not respond to the close does not delay the shutdown', async () => {
  const { app, url } = await openSockets({
    limits: { shutdownMs: 50, closeTimeoutMs: 60_000 },
  });
  const clientRequest = request(`${url}/ws`, { headers: { connection: 'upgrade', ...HANDSHAKE } });
  clientRequest.end();
  const [, socket] = await once(clientRequest, 'upgrade');
  const socketClosed = once(socket, 'close');
  socket.on('error', () => undefined);
  let hasClosed = false;
  void app.close().then(() => (hasClosed = true));
  await until(() => hasClosed);
  socket.resume();
  await socketClosed;
});

test('Closed sockets leave no state', async () => {
  const { url, sockets, identity, app } = await openSockets({
    types: { ping: pingMessage, own: userMessage },
  });
  identity.users.set(createSessionId('a'), createUser('u-1'));
  const countConnections = promisify(app.server.getConnections.bind(app.server));
  for (let round = 0; round < 20; round += 1) {
    const clients = await Promise.all(
      Array.from({ length: 10 }, (_, index) =>
        SocketClient.open(
          url,
          index % 2 === 0 ? {} : { sid: index === 1 ? createSessionId('z') : createSessionId('a') },
        ),
      ),
    );
    for (const [index, client] of clients.entries()) {
      if (index % 3 === 0) client.socket.close();
      else client.socket.terminate();
    }
    await Promise.all(clients.map(({ closed }) => closed));
  }
  const emptySizes = { connections: 0, addresses: 0, users: 0, sessions: 0 };
  await until(() => JSON.stringify(sockets.size) === JSON.stringify(emptySizes));
  await until(async () => (await countConnections()) === 0);
});

test('Metrics count sockets, messages and closes', async () => {
  const { url, identity, registry } = await openSockets({
    types: { ping: pingMessage, own: userMessage },
  });
  identity.users.set(createSessionId('a'), createUser('u-1'));
  const hasMetrics = async (...lines: string[]) => {
    const metrics = await registry.metrics();
    return lines.every((line) => metrics.includes(line));
  };
  const createGauges = (count: number) =>
    ['signed_in', 'anonymous'].map((state) => `assistant_sockets{state="${state}"} ${count}`);
  const client = await SocketClient.open(url, { sid: createSessionId('a') });
  const anonymous = await SocketClient.open(url);
  assert.ok(await hasMetrics(...createGauges(1)));
  await client.outcome({ type: 'own' });
  await anonymous.outcome({ type: 'own' });
  await anonymous.outcome({ type: 'made up by a client' });
  client.socket.close(4999);
  anonymous.socket.close(1000);
  await until(() => hasMetrics(...createGauges(0)));
  for (const line of [
    'assistant_socket_messages_total{type="own",outcome="ok"} 1',
    'assistant_socket_messages_total{type="own",outcome="not_signed_in"} 1',
    'assistant_socket_messages_total{type="unknown",outcome="unknown_message_type"} 1',
    'assistant_socket_closes_total{code="other"} 1',
    'assistant_socket_closes_total{code="1000"} 1',
  ]) {
    assert.ok(await hasMetrics(line), line);
  }
});

/** Creates live users for signed-in sessions. */
function createTestUsers(sessions: string[], limits: Partial<typeof socketLimits> = {}) {
  const identity = new ScriptedIdentity();
  for (const id of sessions) identity.users.set(id, createUser(`u-${id}`));
  const warnings: object[] = [];
  const users = createLiveUsers({
    resolve: identity.resolve,
    findActive: identity.findActive,
    limits: { ...socketLimits, ...limits },
    log: { warn: (line: object) => void warnings.push(line) },
  });
  after(users.stop);
  const endedIds: string[] = [];
  const watchUser = (id: string) =>
    users.watchUser(id, { onResolved: () => undefined, onSignedOut: () => endedIds.push(id) });
  return { identity, endedIds, watchUser, warnings };
}

/** Interval longer than any test. */
const LONG_INTERVAL_MS = 1_000_000;

test('A user is resolved once for the messages of 30 s', async (t) => {
  let currentTime = 1_000_000;
  t.mock.method(performance, 'now', () => currentTime);
  const { identity, watchUser } = createTestUsers(['a'], { sweepIntervalMs: LONG_INTERVAL_MS });
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
  const { identity, endedIds, watchUser } = createTestUsers(['a'], {
    sweepIntervalMs: LONG_INTERVAL_MS,
  });
  const session = watchUser('a');
  await session.current();
  identity.users.clear();
  await assert.rejects(session.current(), { code: 'not_signed_in' });
  assert.deepEqual(endedIds, ['a']);
});

test('A failed resolution is retried after 5 s and logged once', async (t) => {
  let currentTime = 1_000_000;
  t.mock.method(performance, 'now', () => currentTime);
  const { identity, watchUser, warnings } = createTestUsers(['a', 'b', 'c'], {
    sweepIntervalMs: 5,
  });
  identity.failure = new Error('The provider is unavailable');
  watchUser('a');
  watchUser('b');
  await until(() => warnings.length === 1);
  // The warning for one session shows that the sweep has skipped the first two users.
  watchUser('c');
  await until(() => warnings.length === 2);
  currentTime += 5000;
  await until(() => warnings.length === 3);
  assert.equal(identity.resolutions, 6);
  assert.equal(warnings.length, 3);
  assert.partialDeepStrictEqual(warnings, [{ sessions: 2 }, { sessions: 1 }, { sessions: 3 }]);
});

test('Idle users are resolved again, a few at a time', async () => {
  const names = Array.from({ length: 40 }, (_, index) => String(index));
  const { identity, endedIds, watchUser } = createTestUsers(names, {
    userMaxAgeMs: 100,
    sweepIntervalMs: 5,
    sweepConcurrency: 3,
    sweepShare: 0,
  });
  for (const name of names) watchUser(name);
  await until(() => identity.resolutions > 200);
  assert.ok(identity.maxConcurrency <= 3, String(identity.maxConcurrency));
  for (const name of names.slice(0, 10)) identity.users.delete(name);
  await until(() => endedIds.length === 10);
});

suite('protocol', async () => {
  const { operations, components } = document;

  test('The document is valid AsyncAPI 3.0', () => {
    // Ajv must not add its meta-schema, because the official schema contains the same one.
    const ajv = new Ajv({ strict: false, meta: false, validateSchema: false });
    formats.default(ajv);
    const validate = ajv.compile(asyncapi);
    assert.ok(validate(document), ajv.errorsText(validate.errors));
  });

  test('Every message is described, with valid examples', () => {
    for (const [key, { description, examples }] of Object.entries(components.messages)) {
      assert.match(description, /\S.*\.$/, key);
      assert.ok(examples.length > 0, key);
      for (const { payload } of examples) assert.equal(findSchemaError(key, payload), undefined);
    }
  });

  test('Every message of clients is received with its permission', () => {
    assert.deepEqual(clientKeys.toSorted(), Object.keys(clientMessages).toSorted());
    for (const [type, { access }] of Object.entries(clientMessages)) {
      const operation = operations[type];
      assert.deepEqual(operation?.['x-access'], access, type);
      assert.equal(operation?.security === undefined, access === 'public', type);
    }
  });

  test('Every message of the server is an answer or an event', () => {
    const sentKeys = Object.entries(operations).flatMap(([name, operation]) => {
      if (!clientKeys.includes(name)) return operation.messages.map(getKey);
      const replyKeys = (operation.reply?.messages ?? []).map(getKey);
      assert.ok(replyKeys.includes('error'), name);
      return replyKeys;
    });
    assert.deepEqual([...new Set(sentKeys)].toSorted(), serverKeys.toSorted());
  });

  const page = await readFile(new URL('../../../../docs/protocol.md', import.meta.url), 'utf8');

  /** Returns the section of the page with a heading. */
  const getSection = (heading: string) =>
    page.split(`\n## ${heading}\n`)[1]?.split(/^## /m)[0] ?? '';

  /** Rows of the message tables, in document order. */
  const [requestRows = [], replyRows = [], eventRows = [], sessionEventRows = []] = getSection(
    'Messages',
  )
    .split(/^\| -.*$/m)
    .slice(1)
    .map((table) =>
      Array.from(table.matchAll(/^\| `([^`]+)` +\|(.*)\|$/gm), ([, type = '', cells = '']) => ({
        type,
        cells: cells.split('|').map((cell) => cell.trim()),
      })),
    );

  const POSITION_MEMBERS = ['session_id', 'turn_id', 'seq'];
  const eventMessages = new Set(operations['events']?.messages.map(getKey));
  const isEvent = (key: string) => eventMessages.has(key);
  const isInTurn = (key: string) => getMessage(key).payload.required.includes('seq');
  const answerKeys = serverKeys.filter((key) => !isEvent(key));
  const eventKeys = serverKeys.filter((key) => isEvent(key) && isInTurn(key));
  const sessionEventKeys = serverKeys.filter((key) => isEvent(key) && !isInTurn(key));

  /** Returns the members that a cell lists, such as `name`, `name?` or `name {a, b}`, but not those in parentheses. */
  const parseMembers = (cell: string) =>
    Array.from(cell.replaceAll(/\(.*?\)/g, '').matchAll(/`([^`]+)`/g), ([, name = '']) => name);

  /** Returns a schema's members in the notation of the tables, except the omitted ones. */
  const listMembers = ({ properties, required }: Payload, omittedNames: readonly string[]) =>
    Object.entries(properties)
      .filter(([name]) => !omittedNames.includes(name))
      .map(([name, { properties: inner }]) => {
        const memberText = required.includes(name) ? name : `${name}?`;
        return inner === undefined
          ? memberText
          : `${memberText} {${Object.keys(inner).join(', ')}}`;
      });

  test('docs/protocol.md lists every message with its members', () => {
    for (const [rows, keys, omittedNames] of [
      [requestRows, clientKeys, ['type', 'id']],
      [replyRows, answerKeys, ['type', 'id']],
      [eventRows, eventKeys, ['type', 'id', ...POSITION_MEMBERS]],
      [sessionEventRows, sessionEventKeys, ['type']],
    ] as const) {
      assert.deepEqual(
        rows.map(({ type, cells: [members = ''] }) => [type, parseMembers(members)]),
        keys.map((key) => {
          const { name, payload } = getMessage(key);
          return [name, listMembers(payload, omittedNames)];
        }),
      );
    }
  });

  test('docs/protocol.md names the permission of every message', () => {
    const requirements = new Map(requestRows.map(({ type, cells }) => [type, cells[1] ?? '']));
    for (const [type, requirement] of requirements) {
      const [, otherType] = /^as `(.*)`$/.exec(requirement) ?? [];
      const cell = otherType === undefined ? requirement : requirements.get(otherType);
      const access = operations[type]?.['x-access'];
      assert.equal(cell === 'nothing', access === 'public', type);
      const [permission] = /svc\.\w+\.\w+/.exec(String(cell)) ?? [];
      assert.equal(permission, Reflect.get(Object(access), 'permission'), type);
    }
  });

  test('docs/protocol.md lists the errors with their statuses', () => {
    const rows = [...getSection('Errors').matchAll(/^\| `(\w+)` +\| (\d+) +\|/gm)];
    assert.ok(rows.length > 20);
    const statuses = new Map(Object.entries(errors).map(([code, { status }]) => [code, status]));
    for (const [, code = '', status] of rows)
      assert.equal(statuses.get(code), Number(status), code);
  });

  test('docs/protocol.md lists every close code', () => {
    const codeMatches = getSection('Close codes').matchAll(/`(\d{4})`(?=.*\|.*\|.*\|)/g);
    const codes = Array.from(codeMatches, ([, code]) => Number(code));
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
