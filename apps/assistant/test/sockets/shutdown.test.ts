import assert from 'node:assert/strict';
import { once } from 'node:events';
import { request } from 'node:http';
import { connect } from 'node:net';
import { test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { closings } from '@oselya/protocol';
import { SocketClient } from '../helpers/socket-client.ts';
import { account, gated, HANDSHAKE, openSockets, own, ping, sid } from '../helpers/sockets.ts';
import { until } from '../helpers/until.ts';

test('a shutdown closes all sockets with 1012 and waits for messages in progress', async () => {
  const { type, letGo } = gated();
  const { app, url, sockets } = await openSockets({
    types: { ping, slow: type },
    limits: { shutdownMs: 60_000 },
  });
  const clients = await Promise.all(Array.from({ length: 5 }, () => SocketClient.open(url)));
  clients[0]?.send({ type: 'slow' });
  await clients[1]?.outcome({ type: 'ping' });
  const closing = app.close();
  for (const client of clients) assert.deepEqual(await client.closed, closings.restarting);
  await until(() => sockets.size.connections === 0);
  // Nothing but the message is left to wait for; without it the shutdown would be over in no time.
  const outcome = await Promise.race([closing.then(() => 'closed'), turns(100)]);
  assert.equal(outcome, 'in progress');
  letGo();
  await closing;
});

/** Lets the event loop turn. */
async function turns(count: number): Promise<string> {
  for (let turn = 0; turn < count; turn += 1) await setImmediate();
  return 'in progress';
}

test('a peer that does not answer the close does not hold up the shutdown', async () => {
  const { app, url } = await openSockets({
    limits: { shutdownMs: 50, closeTimeoutMs: 60_000 },
  });
  const sent = request(`${url}/ws`, { headers: { connection: 'upgrade', ...HANDSHAKE } });
  sent.end();
  const [, socket] = await once(sent, 'upgrade');
  const ended = once(socket, 'close');
  socket.on('error', () => undefined);
  let isOver = false;
  const closing = app.close().finally(() => {
    isOver = true;
  });
  await until(() => isOver);
  await closing;
  socket.resume();
  await ended;
});

test('a handshake that ends during the shutdown is cut off, and nothing of it stays', async () => {
  const { type, letGo } = gated();
  const { app, url, sockets } = await openSockets({
    types: { slow: type },
    limits: { shutdownMs: 60_000 },
  });
  const client = await SocketClient.open(url);
  client.send({ type: 'slow' });
  // It has begun before, so that its connection is not closed as one that is idle.
  const late = connect(Number(new URL(url).port), '127.0.0.1');
  late.on('error', () => undefined);
  late.write('GET /ws HTTP/1.1\r\nhost: assistant.test\r\nconnection: upgrade\r\n');
  await once(late, 'connect');
  await (await fetch(`${url}/health/live`)).text();
  const closing = app.close();
  await client.closed;
  const ended = once(late, 'close');
  const headers = Object.entries(HANDSHAKE).map(([name, value]) => `${name}: ${value}\r\n`);
  late.write(`${headers.join('')}\r\n`);
  late.resume();
  await ended;
  letGo();
  await closing;
  assert.equal(sockets.size.connections, 0);
});

test('a socket that goes before its user is known is not counted as theirs', async () => {
  const { url, sockets, identity } = await openSockets({ types: { own } });
  identity.users.set(sid('a'), account('u-1'));
  identity.users.set(sid('b'), account('u-2'));
  const { promise, resolve } = Promise.withResolvers<void>();
  identity.gate = promise;
  const client = await SocketClient.open(url, { sid: sid('a') });
  client.socket.terminate();
  await until(() => sockets.size.connections === 0);
  resolve();
  const other = await SocketClient.open(url, { sid: sid('b') });
  assert.equal(await other.outcome({ type: 'own' }), 'ok');
  assert.deepEqual(sockets.size, { connections: 1, addresses: 1, users: 1, sessions: 1 });
});

test('nothing is left behind by 200 connections', async () => {
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
  const nothing = { connections: 0, addresses: 0, users: 0, sessions: 0 };
  await until(() => JSON.stringify(sockets.size) === JSON.stringify(nothing));
  await until(async () => (await connections()) === 0);
});

test('sockets, messages and closes are counted', async () => {
  const { url, identity, registry } = await openSockets({ types: { ping, own } });
  identity.users.set(sid('a'), account('u-1'));
  const metrics = () => registry.metrics();
  const client = await SocketClient.open(url, { sid: sid('a') });
  const nobody = await SocketClient.open(url);
  assert.match(await metrics(), /assistant_sockets\{state="signed_in"\} 1/);
  assert.match(await metrics(), /assistant_sockets\{state="anonymous"\} 1/);
  await client.outcome({ type: 'own' });
  await nobody.outcome({ type: 'own' });
  await nobody.outcome({ type: 'made up by a client' });
  client.socket.close(4999);
  nobody.socket.close(1000);
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
