import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import { type AddressInfo, createServer as createTcpServer, type Socket } from 'node:net';
import { once } from 'node:events';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import {
  type ChatClient,
  describeClose,
  openChat,
  reconnectDelayMs,
  type Status,
} from '../src/client.ts';
import { withCookie } from '../src/node.ts';
import { all, cancel, cookie, openPair, say } from './support/client.ts';
import { completed, event, message, session, started, startScript } from './support/script.ts';

for (const [close, code] of [
  [4401, 'signed_out'],
  [4403, 'forbidden'],
  [1002, 'no_assistant'],
  [1007, 'no_assistant'],
] as const) {
  test(`after ${close} it does not connect again, and whatever waits fails: ${code}`, async (t) => {
    const script = await startScript(t);
    const [client, peer] = await Promise.all([
      openChat({ url: script.url, openSocket: withCookie(cookie) }),
      script.peer(),
    ]);
    const answer = client.send('s', 'Що є?');
    const { id } = await say(peer);
    peer.say(started({ id }));
    const creating = client.createSession();
    await peer.hear('session.create');
    peer.socket.close(close);
    await assert.rejects(creating, { code });
    assert.equal((await all(answer)).error?.code, code);
    await assert.rejects(client.cancel('s'), { code });
    assert.equal((await all(client.send('s', 'Що є?'))).error?.code, code);
  });
}

test('what was too large is not sent again; what had begun goes on', async (t) => {
  const { script, client, peer } = await openPair(t);
  const begun = client.send('s', 'Що є?');
  const { id } = await say(peer);
  peer.say(started({ id }));
  const large = client.send('s2', 'x'.repeat(100_000));
  await say(peer);
  peer.socket.close(1009);
  assert.equal((await all(large)).error?.code, 'too_large');
  const again = await script.peer();
  await again.reopen({ session_id: 's', turn_id: 't', after: 1 }, { turn: 't' });
  again.say(completed(2, 'Є.'));
  assert.equal((await all(begun)).error, undefined);
});

test('a handshake that is refused for now is tried again, as is too many; any other is not', async (t) => {
  const { script, client, peer, statuses } = await openPair(t);
  script.refusals.push(503, 429);
  peer.socket.terminate();
  await script.peer();
  const codes = statuses.flatMap((status) => (status.type === 'waiting' ? [status.code] : []));
  assert.deepEqual(codes, [1006, 1006, 4429]);
  script.refusals.push(403);
  await assert.rejects(openChat({ url: script.url, openSocket: withCookie(cookie) }), {
    code: 'no_assistant',
    message: /HTTP 403/,
  });
  const creating = client.createSession();
  client.close();
  await assert.rejects(creating, { code: 'closed' });
});

test('where nothing answers at first it says so at once, and later when its patience ends', async (t) => {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  assert.ok(typeof address === 'object' && address !== null);
  server.close();
  await once(server, 'close');
  await assert.rejects(
    openChat({ url: `http://127.0.0.1:${address.port}`, openSocket: withCookie(cookie) }),
    {
      code: 'unreachable',
      message: /ECONNREFUSED/,
    },
  );

  const { client, peer, statuses } = await openPair(t, { patienceMs: 0 });
  const answer = client.send('s', 'Що є?');
  await say(peer);
  peer.socket.close(1011, 'The service failed');
  const { error } = await all(answer);
  assert.equal(error?.code, 'unreachable');
  assert.deepEqual(statuses, [{ type: 'connected' }, { type: 'ended', error }]);
});

/** Waits until a status of a type was told. */
async function untilStatus(statuses: readonly Status[], type: Status['type']): Promise<void> {
  while (!statuses.some((status) => status.type === type)) await sleep(5);
}

const QUIET_MS = 30;

test('a server that is waited for and silent is told of, and that it answers again', async (t) => {
  const { client, peer, statuses } = await openPair(t, { quietMs: QUIET_MS });
  const creating = client.createSession();
  const { id } = await peer.hear('session.create');
  // As a process that is stopped: what comes stays unread, pings as well.
  peer.socket.pause();
  await untilStatus(statuses, 'quiet');
  peer.socket.resume();
  await untilStatus(statuses, 'heard');
  peer.say({ type: 'session.created', id, session_id: 's', session });
  await creating;
  const types = statuses.map(({ type }) => type);
  assert.deepEqual(types.slice(0, 3), ['connected', 'quiet', 'heard']);
});

test('so is one that freezes in the middle of an answer', async (t) => {
  const { client, peer, statuses } = await openPair(t, { quietMs: QUIET_MS });
  const answer = client.send('s', 'Що є?');
  const { id } = await say(peer);
  peer.say(started({ id }));
  await peer.pinged();
  peer.socket.pause();
  await untilStatus(statuses, 'quiet');
  peer.socket.resume();
  peer.say(completed(2, 'Є.'));
  assert.equal((await all(answer)).error, undefined);
});

test('one that takes its time and answers pings is not', async (t) => {
  const { client, peer, statuses } = await openPair(t, { quietMs: 300 });
  const creating = client.createSession();
  const { id } = await peer.hear('session.create');
  for (let pings = 0; pings < 4; pings += 1) await peer.pinged();
  peer.say({ type: 'session.created', id, session_id: 's', session });
  await creating;
  assert.deepEqual(statuses, [{ type: 'connected' }]);
});

test('one that takes connections and says nothing is told of before the first is open', async (t) => {
  const sockets: Socket[] = [];
  const server = createTcpServer((socket) => sockets.push(socket.resume())).listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => server.close());
  const statuses: Status[] = [];
  const { port } = server.address() as AddressInfo;
  const opening = openChat({
    url: `http://127.0.0.1:${port}`,
    openSocket: withCookie(cookie),
    quietMs: QUIET_MS,
    onStatus: (status) => statuses.push(status),
  });
  const failing = assert.rejects(opening, { code: 'unreachable' });
  await untilStatus(statuses, 'quiet');
  for (const socket of sockets) socket.destroy();
  await failing;
  assert.deepEqual(statuses[0], { type: 'quiet', quietMs: QUIET_MS });
});

/** How long a client of these tests tries to connect again, and longer than that. */
const PATIENCE_MS = 50;
const LONGER_MS = 2 * PATIENCE_MS;

test('however long nothing was said, a connection that is lost is made again', async (t) => {
  const { script, client, peer } = await openPair(t, { patienceMs: PATIENCE_MS });
  await sleep(LONGER_MS);
  peer.socket.close(1012);
  const again = await script.peer();
  const creating = client.createSession();
  const { id } = await again.hear('session.create');
  again.say({ type: 'session.created', id, session_id: 's', session });
  assert.equal((await creating).session_id, 's');
});

const digest = (id: string) => message(id, 'assistant', 'Нових: 1', { unasked: true });

test('what comes by itself is told on the next connection too, and once', async (t) => {
  const { script, client, peer } = await openPair(t);
  const arrived: string[] = [];
  client.onArrived(({ message: { id } }) => arrived.push(id));
  const opening = client.openSession('s');
  const { id } = await peer.hear('session.open');
  const opened = { type: 'session.opened', session_id: 's', session, turn: null };
  const before = [message('q', 'user', 'Що є?'), message('a', 'assistant', 'Є.'), digest('d1')];
  peer.say({ ...opened, id, messages: before });
  assert.equal((await opening).messages.length, 3);
  peer.socket.terminate();

  const again = await script.peer();
  const { id: reopening, ...asked } = await again.hear('session.open');
  assert.deepEqual(asked, { type: 'session.open', session_id: 's' });
  again.say({ ...opened, id: reopening, messages: [...before, digest('d2')] });
  const comes = (which: string, turn: string) =>
    again.say({
      ...event(1, 'message.arrived', { message: digest(which) }),
      turn_id: turn,
    });
  comes('d2', 't2');
  comes('d3', 't3');
  await cancel(client, again);
  assert.deepEqual(arrived, ['d2', 'd3']);
});

test('a session that was opened is opened again until the assistant can tell, and not when it is gone', async (t) => {
  const { script, client, peer } = await openPair(t);
  const opening = client.openSession('s');
  const { id } = await peer.hear('session.open');
  const opened = { type: 'session.opened', session_id: 's', session, messages: [], turn: null };
  peer.say({ ...opened, id });
  await opening;
  peer.socket.terminate();
  const second = await script.peer();
  for (const [status, code] of [
    [503, 'unavailable'],
    [404, 'session_not_found'],
  ] as const) {
    const { id: asked } = await second.hear('session.open');
    second.say({ type: 'error', id: asked, problem: { status, code, title: 'No' } });
  }
  // What was said before it is answered after it.
  await cancel(client, second);
  second.socket.terminate();
  const third = await script.peer();
  const creating = client.createSession();
  third.say({
    type: 'session.created',
    id: (await third.hear('session.create')).id,
    session_id: 's',
    session,
  });
  await creating;
});

test('a server that only pings is there: the patience begins anew', async (t) => {
  const { script, peer, statuses } = await openPair(t, { patienceMs: PATIENCE_MS });
  peer.socket.close(1012);
  const second = await script.peer();
  second.say({ type: 'pong' });
  await sleep(LONGER_MS);
  second.socket.close(1012);
  await script.peer();
  assert.ok(statuses.every(({ type }) => type !== 'ended'));
});

test('a server that only opens connections is given up, and that is told', async (t) => {
  const { script, client, peer, ended, statuses } = await openPair(t, { patienceMs: PATIENCE_MS });
  peer.socket.close(1012);
  const second = await script.peer();
  await sleep(LONGER_MS);
  second.socket.close(1012);
  assert.equal((await ended).code, 'unreachable');
  assert.deepEqual(
    statuses.map(({ type }) => type),
    ['connected', 'waiting', 'connected', 'ended'],
  );
  await assert.rejects(client.createSession(), { code: 'unreachable' });
});

test('who closes a client is not told that it has ended', async (t) => {
  const { client, peer, statuses } = await openPair(t);
  client.close();
  await once(peer.socket, 'close');
  assert.deepEqual(statuses, [{ type: 'connected' }]);
});

test('what is no message of the protocol ends it', async (t) => {
  for (const data of ['no JSON', '[]', '{"type":"pong","id":1}{', '{"type":"message.delta"}']) {
    const { client, peer } = await openPair(t);
    peer.socket.send(data);
    await assert.rejects(client.createSession(), { code: 'no_assistant' }, data);
  }
});

test('an answer of a type that answers something else ends it', async (t) => {
  for (const [type, ask] of [
    ['session.create', (client: ChatClient) => client.createSession()],
    ['session.open', (client: ChatClient) => client.openSession('s')],
    ['message.cancel', (client: ChatClient) => client.cancel('s')],
  ] as const) {
    const { client, peer } = await openPair(t);
    const asking = ask(client);
    peer.say({ type: 'pong', id: (await peer.hear(type)).id });
    await assert.rejects(asking, { code: 'no_assistant', message: new RegExp(type) });
  }
});

test('what a later version may send answers nothing', async (t) => {
  const { client, peer } = await openPair(t);
  const creating = client.createSession();
  const { id } = await peer.hear('session.create');
  peer.say(event(1, 'thought', { id }));
  peer.say({ type: 'session.created', id, session_id: 's', session });
  assert.equal((await creating).session_id, 's');
});

test('a server that is no assistant is told apart', async (t) => {
  const server = createServer((_request, response) => response.end('a page')).listen(
    0,
    '127.0.0.1',
  );
  await once(server, 'listening');
  t.after(() => server.close());
  const address = server.address();
  assert.ok(typeof address === 'object' && address !== null);
  await assert.rejects(
    openChat({ url: `http://127.0.0.1:${address.port}`, openSocket: withCookie(cookie) }),
    {
      code: 'no_assistant',
    },
  );
});

test('each close code that a client waits after has words', () => {
  for (const code of [1006, 1009, 1011, 1012, 4429]) assert.doesNotMatch(describeClose(code), /\d/);
  assert.equal(describeClose(4999), 'it was closed with the code 4999');
});

test('the rule of the protocol page: backoff, and who is not to come back', () => {
  for (const code of [1000, 1001, 1002, 1007, 4401, 4403]) {
    assert.equal(reconnectDelayMs(code, 0), null);
  }
  for (const code of [1006, 1009, 1011]) {
    for (const [attempt, mostMs] of [1000, 2000, 4000, 8000, 16_000, 30_000, 30_000].entries()) {
      const delayMs = reconnectDelayMs(code, attempt) ?? 0;
      assert.ok(delayMs >= mostMs / 2 && delayMs <= mostMs, `${code} ${attempt} ${delayMs}`);
    }
  }
  assert.ok((reconnectDelayMs(1012, 0) ?? Infinity) <= 2000);
  const delayMs = reconnectDelayMs(4429, 0) ?? 0;
  assert.ok(delayMs >= 60_000 && delayMs <= 120_000);
});
