import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { all, cancel, openPair, say, textOf } from './support/client.ts';
import { completed, delta, message, type Peer, session, started } from './support/script.ts';

/** What the assistant answers while its database, or the identity provider, does not. */
const unavailable = { status: 503, code: 'unavailable', title: 'Service unavailable' };
const unknown = { status: 503, code: 'provider_unavailable', title: 'The provider is away' };

/** Answers the next message of the client, which has to be of a type, with a problem. */
async function refuse(peer: Peer, type: string, problem: object): Promise<void> {
  peer.say({ type: 'error', id: (await peer.hear(type)).id, problem });
}

test('a message that may have been taken is sent again until the assistant can tell', async (t) => {
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
    { type: 'refused', problem: unavailable, delayMs: 0 },
    { type: 'refused', problem: unknown, delayMs: 0 },
    { type: 'refused', problem: unavailable, delayMs: 0 },
  ]);
});

test('a refusal for now may hide that the message was stored: it has the same name the next time', async (t) => {
  const { client, peer } = await openPair(t);
  const answer = client.send('s', 'Що є?');
  const first = await say(peer);
  peer.say({ type: 'error', id: first.id, problem: unavailable });
  const second = await say(peer);
  assert.equal(second.client_message_id, first.client_message_id);
  peer.say(started({ id: second.id }), completed(2, 'Є дві.'));
  assert.equal((await all(answer)).error, undefined);
});

test('a retry that was refused for now is looked for before it is asked for again', async (t) => {
  const { client, peer } = await openPair(t);
  const answer = client.retry('s');
  await refuse(peer, 'message.retry', unavailable);
  await refuse(peer, 'session.open', unknown);
  const cut = message('a', 'assistant', 'Є', { status: 'cut' });
  await peer.reopen({ session_id: 's' }, { messages: [message('q', 'user', 'Що є?'), cut] });
  const { id } = await peer.hear('message.retry');
  peer.say(started({ id, replaces: 'a' }), completed(2, 'Є дві.'));
  assert.equal((await all(answer)).error, undefined);
});

test('what is refused for minutes fails with the reason', async (t) => {
  const { client, peer, statuses } = await openPair(t);
  const answer = client.send('s', 'Що є?');
  for (let sent = 0; sent < 9; sent += 1) await refuse(peer, 'message.send', unavailable);
  const { error } = await all(answer);
  assert.equal(error?.code, 'refused');
  assert.deepEqual(error?.problem, unavailable);
  assert.equal(statuses.filter(({ type }) => type === 'refused').length, 8);
});

test('a session that is refused for now is asked for again, and one that is refused is not', async (t) => {
  const { client, peer, statuses } = await openPair(t);
  const creating = client.createSession();
  await refuse(peer, 'session.create', unavailable);
  await refuse(peer, 'session.create', unknown);
  const { id } = await peer.hear('session.create');
  peer.say({ type: 'session.created', id, session_id: 's', session });
  assert.equal((await creating).session_id, 's');
  assert.deepEqual(statuses.slice(1), [
    { type: 'refused', problem: unavailable, delayMs: 0 },
    { type: 'refused', problem: unknown, delayMs: 0 },
  ]);

  const problem = { status: 404, code: 'profile_not_found', title: 'No such profile' };
  const refused = client.createSession({ profileId: 'none' });
  await refuse(peer, 'session.create', problem);
  await assert.rejects(refused, { code: 'refused', problem });
  const unlucky = client.createSession();
  for (let asked = 0; asked < 9; asked += 1) await refuse(peer, 'session.create', unavailable);
  await assert.rejects(unlucky, { code: 'refused', problem: unavailable });
});

test('who waits to ask again leaves that to the next connection', async (t) => {
  const delayMs = 50;
  const delayOf = (code: number) => (code === 1012 ? 0 : delayMs);
  const { script, client, peer } = await openPair(t, { delayOf });
  const answer = client.retry('s');
  await refuse(peer, 'message.retry', unavailable);
  peer.socket.close(1012);
  const again = await script.peer();
  const cut = message('a', 'assistant', 'Є', { status: 'cut' });
  await again.reopen({ session_id: 's' }, { messages: [message('q', 'user', 'Що є?'), cut] });
  const { id } = await again.hear('message.retry');
  await sleep(2 * delayMs);
  await cancel(client, again);
  again.say(started({ id, replaces: 'a' }), completed(2, 'Є', { status: 'cancelled' }));
  assert.equal((await all(answer)).error, undefined);
});
