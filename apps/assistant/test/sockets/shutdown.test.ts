import assert from 'node:assert/strict';
import { once } from 'node:events';
import { request } from 'node:http';
import { test } from 'node:test';
import { closings } from '../../src/sockets/closings.ts';
import { SocketClient } from '../helpers/socket-client.ts';
import { account, gated, HANDSHAKE, openSockets, own, ping, sid } from '../helpers/sockets.ts';
import { until } from '../helpers/until.ts';

test('a shutdown closes all sockets with 1012 and waits for messages in progress', async () => {
  const { type, letGo } = gated();
  const { app, url, sockets } = await openSockets({ types: { ping, slow: type } });
  const clients = await Promise.all(Array.from({ length: 5 }, () => SocketClient.open(url)));
  clients[0]?.send({ type: 'slow' });
  clients[0]?.send({ type: 'ping' });
  await clients[1]?.outcome({ type: 'ping' });
  const closing = app.close();
  for (const client of clients) assert.deepEqual(await client.closed, closings.restarting);
  const order: string[] = [];
  const noted = closing.finally(() => order.push('closed'));
  order.push('let go');
  letGo();
  await noted;
  assert.deepEqual(order, ['let go', 'closed']);
  assert.equal(sockets.size.connections, 0);
});

test('a peer that does not answer the close does not hold up the shutdown', async () => {
  const { app, url } = await openSockets({ limits: { shutdownMs: 50 } });
  const sent = request(`${url}/ws`, { headers: { connection: 'upgrade', ...HANDSHAKE } });
  sent.end();
  const [, socket] = await once(sent, 'upgrade');
  const ended = once(socket, 'close');
  socket.on('error', () => undefined);
  await app.close();
  socket.resume();
  await ended;
});

test('a handshake during the shutdown opens no socket', async () => {
  const { type, letGo } = gated();
  const { app, url, sockets } = await openSockets({ types: { slow: type } });
  const client = await SocketClient.open(url);
  client.send({ type: 'slow' });
  await until(() => client.socket.bufferedAmount === 0);
  const closing = app.close();
  await client.closed;
  const late = SocketClient.begin(url);
  assert.equal((await late.closed).code, 1006);
  letGo();
  await closing;
  assert.equal(sockets.size.connections, 0);
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
