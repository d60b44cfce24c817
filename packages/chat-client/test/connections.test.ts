import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { openChat, reconnectDelayMs, type Status } from '../src/client.ts';
import { createCookieSocketOpener } from '../src/node.ts';
import {
  all,
  cancel,
  completed,
  cookie,
  delta,
  message,
  openPair,
  type Peer,
  say,
  session,
  started,
  startScript,
  textOf,
} from './support.ts';

for (const [close, code] of [
  [4401, 'signed_out'],
  [4403, 'forbidden'],
  [1002, 'no_assistant'],
  [1007, 'no_assistant'],
] as const) {
  test(`After ${close} it does not reconnect, and everything pending fails with ${code}`, async (t) => {
    const script = await startScript(t);
    const [client, peer] = await Promise.all([
      openChat({ url: script.url, openSocket: createCookieSocketOpener(cookie) }),
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

test('A message that was too large is not sent again, and running answers go on', async (t) => {
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

test('A handshake is repeated after 503 and 429 only', async (t) => {
  const { script, client, peer, statuses } = await openPair(t);
  script.refusals.push(503, 429);
  peer.socket.terminate();
  await script.peer();
  const codes = statuses.flatMap((status) => (status.type === 'waiting' ? [status.code] : []));
  assert.deepEqual(codes, [1006, 1006, 4429]);
  script.refusals.push(403);
  await assert.rejects(
    openChat({ url: script.url, openSocket: createCookieSocketOpener(cookie) }),
    {
      code: 'no_assistant',
      message: /HTTP 403/,
    },
  );
  const creating = client.createSession();
  client.close();
  await assert.rejects(creating, { code: 'closed' });
});

test('A client fails at once without a first connection, and later after its patience', async (t) => {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  assert.ok(typeof address === 'object' && address !== null);
  server.close();
  await once(server, 'close');
  await assert.rejects(
    openChat({
      url: `http://127.0.0.1:${address.port}`,
      openSocket: createCookieSocketOpener(cookie),
    }),
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

/** Waits for a status of a type. */
async function untilStatus(statuses: readonly Status[], type: Status['type']): Promise<void> {
  while (!statuses.some((status) => status.type === type)) await sleep(5);
}

const QUIET_MS = 30;

test('A silent server is reported, and its next answer too', async (t) => {
  const { client, peer, statuses } = await openPair(t, { quietMs: QUIET_MS });
  const creating = client.createSession();
  const { id } = await peer.hear('session.create');
  // A stopped process reads nothing.
  peer.socket.pause();
  await untilStatus(statuses, 'quiet');
  peer.socket.resume();
  await untilStatus(statuses, 'responsive');
  peer.say({ type: 'session.created', id, session_id: 's', session });
  await creating;
  const types = statuses.map(({ type }) => type);
  assert.deepEqual(types.slice(0, 3), ['connected', 'quiet', 'responsive']);
});

const PATIENCE_MS = 50;
const LONGER_MS = 2 * PATIENCE_MS;

test('A connection is restored however long it was idle', async (t) => {
  const { script, client, peer } = await openPair(t, { patienceMs: PATIENCE_MS });
  await sleep(LONGER_MS);
  peer.socket.close(1012);
  const again = await script.peer();
  const creating = client.createSession();
  const { id } = await again.hear('session.create');
  again.say({ type: 'session.created', id, session_id: 's', session });
  assert.equal((await creating).session_id, 's');
});

test('A session is opened again until the server can answer, unless it is gone', async (t) => {
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

test('A server that only accepts connections is given up', async (t) => {
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

test('A message against the protocol ends the client', async (t) => {
  for (const data of ['no JSON', '[]', '{"type":"pong","id":1}{', '{"type":"message.delta"}']) {
    const { client, peer } = await openPair(t);
    peer.socket.send(data);
    await assert.rejects(client.createSession(), { code: 'no_assistant' }, data);
  }
});

test('Delays follow docs/protocol.md', () => {
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

const unavailable = { status: 503, code: 'unavailable', title: 'Service unavailable' };
const unknown = { status: 503, code: 'provider_unavailable', title: 'The provider is away' };

/** Answers the next message with a problem. */
async function refuse(peer: Peer, type: string, problem: object): Promise<void> {
  peer.say({ type: 'error', id: (await peer.hear(type)).id, problem });
}

test('A message that may be stored is repeated while the server is unavailable', async (t) => {
  const { script, client, peer, statuses } = await openPair(t);
  const answer = client.send('s', 'Що є?');
  const { client_message_id } = await say(peer);
  peer.socket.close(1012);
  const again = await script.peer();
  for (const problem of [unavailable, unknown]) {
    const repeated = await say(again);
    assert.equal(repeated.client_message_id, client_message_id);
    again.say({ type: 'error', id: repeated.id, problem });
  }
  const last = await say(again);
  assert.equal(last.client_message_id, client_message_id);
  const repeatedAs = {
    type: 'message.repeated',
    session_id: 's',
    turn_id: 't',
    client_message_id: 'm',
  };
  again.say({ ...repeatedAs, id: last.id });
  const question = message('q', 'user', 'Що є?', { client_message_id });
  await refuse(again, 'session.open', unavailable);
  await again.reopen(
    { session_id: 's', turn_id: 't', after: 0 },
    { turn: 't', messages: [question] },
    [started()],
  );
  again.say(delta(2, 'Є дві.'), completed(3, 'Є дві.'));
  const { events, error } = await all(answer);
  assert.equal(error, undefined);
  assert.equal(textOf(events), 'Є дві.');
  assert.deepEqual(statuses.slice(3), [
    { type: 'unavailable', problem: unavailable, delayMs: 0 },
    { type: 'unavailable', problem: unknown, delayMs: 0 },
    { type: 'unavailable', problem: unavailable, delayMs: 0 },
  ]);
});

test('Creating a session is repeated during an outage only', async (t) => {
  const { client, peer, statuses } = await openPair(t);
  const creating = client.createSession();
  await refuse(peer, 'session.create', unavailable);
  await refuse(peer, 'session.create', unknown);
  const { id } = await peer.hear('session.create');
  peer.say({ type: 'session.created', id, session_id: 's', session });
  assert.equal((await creating).session_id, 's');
  assert.deepEqual(statuses.slice(1), [
    { type: 'unavailable', problem: unavailable, delayMs: 0 },
    { type: 'unavailable', problem: unknown, delayMs: 0 },
  ]);

  const problem = { status: 404, code: 'profile_not_found', title: 'No such profile' };
  const refused = client.createSession({ profileId: 'none' });
  await refuse(peer, 'session.create', problem);
  await assert.rejects(refused, { code: 'rejected', problem });
  const unlucky = client.createSession();
  for (let asked = 0; asked < 9; asked += 1) await refuse(peer, 'session.create', unavailable);
  await assert.rejects(unlucky, { code: 'rejected', problem: unavailable });
});
