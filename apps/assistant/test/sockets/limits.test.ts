import assert from 'node:assert/strict';
import { once } from 'node:events';
import { test } from 'node:test';
import { closings } from '@oselya/protocol';
import { clientMessages } from '@oselya/protocol';
import { userMessage } from '../../src/conversations/dispatch.ts';
import { SocketClient } from '../helpers/socket-client.ts';
import { account, admin, gated, openSockets, own, ping, sid, telling } from '../helpers/sockets.ts';
import { until } from '../helpers/until.ts';

test('a user has so many sockets and no more, over all their sign-ins', async () => {
  const { url, sockets, identity } = await openSockets({ types: { own }, caps: { perUser: 2 } });
  for (const letter of ['a', 'b', 'c']) identity.users.set(sid(letter), account('u-1'));
  identity.users.set(sid('d'), account('u-2'));
  const first = await SocketClient.open(url, { sid: sid('a') });
  const second = await SocketClient.open(url, { sid: sid('b') });
  for (const client of [first, second]) assert.equal(await client.outcome({ type: 'own' }), 'ok');
  const third = await SocketClient.open(url, { sid: sid('c') });
  assert.equal((await third.closed).code, 4429);
  const other = await SocketClient.open(url, { sid: sid('d') });
  assert.equal(await other.outcome({ type: 'own' }), 'ok');
  first.socket.close();
  await until(() => sockets.size.connections === 2);
  const fourth = await SocketClient.open(url, { sid: sid('c') });
  assert.equal(await fourth.outcome({ type: 'own' }), 'ok');
});

test('sockets that opened while their user could not be known are counted once it is', async () => {
  const { url, sockets, identity } = await openSockets({
    types: { own },
    caps: { perUser: 2 },
    limits: { userRetryMs: 20, sweepIntervalMs: 10 },
  });
  identity.users.set(sid('a'), account('u-1'));
  identity.failure = new Error('the provider does not answer');
  for (let count = 0; count < 5; count += 1) await SocketClient.open(url, { sid: sid('a') });
  await until(() => identity.resolutions > 1);
  assert.equal(sockets.size.connections, 5);
  identity.failure = undefined;
  await until(() => sockets.size.connections === 2);
  assert.equal(sockets.size.users, 1);
});

test('a message that waits for its user is not acted on when the socket may not stay', async () => {
  let acted = 0;
  const act = userMessage({ ...clientMessages.ping, access: 'signed-in' }, () => {
    acted += 1;
  });
  const { url, identity } = await openSockets({ types: { own, act }, caps: { perUser: 1 } });
  identity.users.set(sid('a'), account('u-1'));
  identity.users.set(sid('b'), account('u-1'));
  const first = await SocketClient.open(url, { sid: sid('a') });
  assert.equal(await first.outcome({ type: 'own' }), 'ok');
  const { promise, resolve } = Promise.withResolvers<void>();
  identity.gate = promise;
  const second = await SocketClient.open(url, { sid: sid('b') });
  second.send({ type: 'act' });
  // The server answers pings in their order, so by then it has the message.
  second.socket.ping();
  await once(second.socket, 'pong');
  resolve();
  assert.deepEqual(await second.closed, closings.tooManySockets);
  assert.equal(acted, 0);
});

test('of sockets that open at once as many stay as may', async () => {
  const { url, identity } = await openSockets({ types: { own }, caps: { perUser: 3 } });
  identity.users.set(sid('a'), account('u-1'));
  const clients = await Promise.all(
    Array.from({ length: 8 }, () => SocketClient.open(url, { sid: sid('a') })),
  );
  await until(() => clients.filter(({ isClosed }) => isClosed).length === 5);
  const stayed = clients.filter(({ isClosed }) => !isClosed);
  for (const client of stayed) assert.equal(await client.outcome({ type: 'own' }), 'ok');
});

const minute = [
  ['errors', closings.tooManyErrors, { type: 'nothing' }],
  ['messages that are no JSON', closings.tooManyErrors, '{'],
  ['messages of nobody', closings.signedOut, { type: 'own' }],
] as const;

for (const [name, closing, message] of minute) {
  test(`more than 20 ${name} in a minute close the socket with ${closing.code}`, async () => {
    const { url } = await openSockets({ types: { own } });
    const client = await SocketClient.open(url);
    for (let sent = 1; sent <= 21; sent += 1) {
      client.send(message);
      await until(() => client.frames.length === sent);
    }
    assert.deepEqual(await client.closed, closing);
  });
}

test('more than 20 messages in a minute that the user may not send close it with 4403', async () => {
  const { url, identity } = await openSockets({ types: { admin } });
  identity.users.set(sid('a'), account('u-1'));
  const client = await SocketClient.open(url, { sid: sid('a') });
  for (let sent = 0; sent < 21; sent += 1) {
    assert.equal(await client.outcome({ type: 'admin' }), 'admin_only');
  }
  assert.deepEqual(await client.closed, closings.forbidden);
});

test('more than 240 messages in a minute close the socket with 4429', async () => {
  const { url } = await openSockets({ types: { ping } });
  const client = await SocketClient.open(url);
  for (let sent = 0; sent < 240; sent += 1) {
    assert.equal(await client.outcome({ type: 'ping' }), 'ok');
  }
  client.send({ type: 'ping' });
  assert.deepEqual(await client.closed, closings.tooManyMessages);
  assert.equal(client.frames.length, 240);
});

test('more than 32 messages that wait close the socket with 4429', async () => {
  const { type, letGo } = gated();
  const { url } = await openSockets({ types: { slow: type } });
  const client = await SocketClient.open(url);
  for (let sent = 0; sent < 34; sent += 1) client.send({ type: 'slow' });
  assert.deepEqual(await client.closed, closings.tooManyMessages);
  letGo();
});

test('a message of 64 KiB is taken, and a larger one closes the socket with 1009', async () => {
  const { url } = await openSockets({ types: { ping } });
  const client = await SocketClient.open(url);
  const spaces = ' '.repeat(64 * 1024 - '{"type":"ping"}'.length);
  client.send(`{"type":"ping"}${spaces}`);
  await until(() => client.frames.length === 1);
  assert.equal(client.frames[0]?.type, 'pong');
  client.send(`{"type":"ping"} ${spaces}`);
  assert.equal((await client.closed).code, 1009);
});

test('a peer that does not read is closed with 4429, and gets no more', async () => {
  const flood = telling('x'.repeat(256 * 1024), 200);
  const { url, registry } = await openSockets({ types: { flood } });
  const client = await SocketClient.open(url);
  client.socket.pause();
  client.send({ type: 'flood' });
  await until(async () => (await registry.metrics()).includes('{type="flood",outcome="ok"} 1'));
  client.socket.resume();
  assert.deepEqual(await client.closed, closings.tooSlow);
  assert.ok(client.frames.length < 200, String(client.frames.length));
});

test('a peer that answers no ping is ended after the second; one that does stays', async () => {
  const { url, sockets } = await openSockets({ types: { ping }, limits: { pingIntervalMs: 20 } });
  const dead = await SocketClient.open(url, { autoPong: false });
  const alive = await SocketClient.open(url);
  let pings = 0;
  alive.socket.on('ping', () => {
    pings += 1;
  });
  assert.equal((await dead.closed).code, 1006);
  await until(() => pings >= 5);
  assert.equal(await alive.outcome({ type: 'ping' }), 'ok');
  assert.equal(sockets.size.connections, 1);
});
