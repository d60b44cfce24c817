import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { ReceivedMessage } from '../src/client.ts';
import {
  all,
  cancel,
  completed,
  cookie,
  delta,
  event,
  message,
  openPair,
  say,
  session,
  started,
  textOf,
} from './support.ts';

const tool = { step_id: '1', name: 'search_listings', title: 'Шукаю' };

test('A client creates a session, sends a message and gets the answer', async (t) => {
  const { client, peer } = await openPair(t);
  assert.equal(peer.cookie, `${cookie.name}=${cookie.value}`);
  const creating = client.createSession({ profileId: 'market', name: 'Львів' });
  const { id, ...asked } = await peer.hear('session.create');
  assert.deepEqual(asked, { type: 'session.create', profile_id: 'market', name: 'Львів' });
  peer.say({ type: 'session.created', id, session_id: 's', session });
  assert.equal((await creating).session_id, 's');

  const answer = client.send('s', 'Що є?');
  const changes = [{ category: 'wishes', key: 'city', value: 'Львів', previous: null }];
  const sent = await peer.hear('message.send');
  assert.match(String(sent['client_message_id']), /^[\w-]{36}$/);
  peer.say(
    started({ id: sent.id }),
    event(2, 'tool.started', { tool }),
    event(3, 'tool.finished', { tool: { ...tool, status: 'done', summary: '2', changes } }),
    delta(4, 'Є '),
    delta(5, 'дві.'),
    completed(6, 'Є дві.'),
  );
  const { events, error } = await all(answer);
  assert.equal(error, undefined);
  assert.equal(textOf(events), 'Є дві.');
  assert.deepEqual(
    events.map(({ seq }) => seq),
    [1, 2, 3, 4, 5, 6],
  );
  assert.partialDeepStrictEqual(events[2], { type: 'tool.finished', tool: { changes } });
});

test('After a lost connection the answer continues from the last number, each event once', async (t) => {
  const { script, client, peer, statuses } = await openPair(t);
  const answer = client.send('s', 'Що є?');
  const { id } = await say(peer);
  peer.say(started({ id }), delta(2, 'Є '), delta(3, 'дві '));
  peer.socket.close(1012);
  const again = await script.peer();
  const place = { session_id: 's', turn_id: 't', after: 3 };
  // A known event comes again, and missed texts are joined.
  await again.reopen(place, { turn: 't' }, [delta(3, 'дві '), delta(6, 'квартири ')]);
  again.say(delta(7, 'тут.'), delta(7, 'тут.'), completed(8, 'Є дві квартири тут.'));
  const { events } = await all(answer);
  assert.equal(textOf(events), 'Є дві квартири тут.');
  assert.deepEqual(
    statuses.map(({ type }) => type),
    ['connected', 'waiting', 'connected'],
  );
});

test('A gap is requested once, and filled in order', async (t) => {
  const { client, peer } = await openPair(t);
  const answer = client.send('s', 'Що є?');
  const { id } = await say(peer);
  peer.say(started({ id }), delta(2, 'а'), delta(4, 'в'), delta(5, 'г'));
  const place = { session_id: 's', turn_id: 't', after: 2 };
  await peer.reopen(place, { turn: 't' }, [delta(5, 'бвг')]);
  peer.say(delta(6, 'ґ'), completed(7, 'абвгґ'));
  assert.equal(textOf((await all(answer)).events), 'абвгґ');
});

test('Unknown events keep their number and are ignored', async (t) => {
  const { client, peer } = await openPair(t);
  const answer = client.send('s', 'Що є?');
  const { id } = await say(peer);
  peer.say({ type: 'weather', sun: true });
  peer.say(
    started({ id }),
    event(2, 'thought', { text: '?' }),
    delta(3, 'Так'),
    completed(4, 'Так'),
  );
  const { events } = await all(answer);
  assert.deepEqual(
    events.map(({ type }) => type),
    ['message.started', 'message.delta', 'message.completed'],
  );
});

test('The end of a cut answer counts, whatever its number', async (t) => {
  const { client, peer } = await openPair(t);
  const answer = client.send('s', 'Що є?');
  const { id } = await say(peer);
  peer.say(started({ id }), delta(2, 'Є'), delta(3, ' дв'), completed(3, 'Є', { status: 'cut' }));
  const last = (await all(answer)).events.at(-1);
  assert.ok(last?.type === 'message.completed');
  assert.equal(last.message.status, 'cut');
});

test('An answer that has ended meanwhile ends with its stored message', async (t) => {
  const stored = {
    'message.completed': message('a', 'assistant', 'Є дві.'),
    error: message('a', 'assistant', 'Є', {
      status: 'failed',
      problem: { title: 'No', status: 502, code: 'model_failed', detail: 'Try again.' },
    }),
  };
  for (const [type, end] of Object.entries(stored)) {
    const { script, client, peer } = await openPair(t);
    const answer = client.send('s', 'Що є?');
    const { id } = await say(peer);
    peer.say(started({ id }), delta(2, 'Є '));
    peer.socket.terminate();
    const again = await script.peer();
    const question = message('q', 'user', 'Що є?');
    const place = { session_id: 's', turn_id: 't', after: 2 };
    await again.reopen(place, { messages: [question, end, message('q2', 'user', 'А ще?')] });
    const last = (await all(answer)).events.at(-1);
    assert.equal(last?.type, type);
    assert.ok(last !== undefined && 'message' in last);
    assert.equal(last.message?.content, end.content);
  }
});

test('An answer that is neither running nor stored is lost', async (t) => {
  const { script, client, peer } = await openPair(t);
  const answer = client.send('s', 'Що є?');
  const { id } = await say(peer);
  peer.say(started({ id }));
  peer.socket.terminate();
  const again = await script.peer();
  const place = { session_id: 's', turn_id: 't', after: 1 };
  await again.reopen(place, { messages: [message('q', 'user', 'Що є?')] });
  assert.equal((await all(answer)).error?.code, 'answer_lost');
});

test('A message is sent again under its name until the server has it', async (t) => {
  const { script, client, peer } = await openPair(t);
  const answer = client.send('s', 'Що є?');
  const first = await say(peer);
  peer.socket.terminate();
  const again = await script.peer();
  const second = await say(again);
  assert.equal(second.client_message_id, first.client_message_id);
  const { id } = second;
  again.say({
    type: 'message.repeated',
    id,
    session_id: 's',
    turn_id: 't',
    client_message_id: 'm',
  });
  const question = message('q', 'user', 'Що є?', { client_message_id: first.client_message_id });
  const events = [started(), delta(3, 'Є дві.')];
  await again.reopen(
    { session_id: 's', turn_id: 't', after: 0 },
    { turn: 't', messages: [question] },
    events,
  );
  again.say(completed(4, 'Є дві.'));
  assert.equal(textOf((await all(answer)).events), 'Є дві.');
});

test('A retry without an answer is looked up before it is repeated', async (t) => {
  const { script, client, peer } = await openPair(t);
  const answer = client.retry('s');
  await peer.hear('message.retry');
  peer.socket.terminate();
  const second = await script.peer();
  const cut = message('a', 'assistant', 'Є', { status: 'cut' });
  await second.reopen({ session_id: 's' }, { messages: [message('q', 'user', 'Що є?'), cut] });
  const { id } = await second.hear('message.retry');
  second.say(started({ id, replaces: 'a' }), delta(2, 'Є дві.'), completed(3, 'Є дві.'));
  assert.equal(textOf((await all(answer)).events), 'Є дві.');
});

test('An opened session brings its running answer', async (t) => {
  const { client, peer } = await openPair(t);
  const opening = client.openSession('s');
  const { id } = await peer.hear('session.open');
  const opened = { type: 'session.opened', id, session_id: 's', session, messages: [] };
  peer.say({ ...opened, turn: { turn_id: 't' } }, started(), delta(3, 'Є '));
  const { answer } = await opening;
  assert.ok(answer);
  const place = { session_id: 's', turn_id: 't', after: 0 };
  await peer.reopen(place, { turn: 't' }, [started(), delta(3, 'Є ')]);
  peer.say(delta(4, 'дві.'), completed(5, 'Є дві.'));
  assert.equal(textOf((await all(answer)).events), 'Є дві.');
});

test('A rejected message throws its problem', async (t) => {
  const { client, peer } = await openPair(t);
  const problem = { title: 'Busy', status: 409, code: 'turn_running', detail: 'Wait for it.' };
  const answer = client.send('s', 'Що є?');
  peer.say({ type: 'error', id: (await say(peer)).id, problem });
  const { error } = await all(answer);
  assert.equal(error?.code, 'rejected');
  assert.equal(error?.problem?.code, 'turn_running');
  const cancelling = client.cancel('s');
  peer.say({ type: 'error', id: (await peer.hear('message.cancel')).id, problem });
  await assert.rejects(cancelling, { code: 'rejected', message: 'Wait for it.' });
});

const digest = (id: string) => message(id, 'assistant', 'Нових: 1', { unasked: true });

test('A digest is no answer to a question', async (t) => {
  const { script, client, peer } = await openPair(t);
  const arrived: string[] = [];
  client.onArrived(({ message: { id: came } }) => arrived.push(came));
  const answer = client.retry('s');
  const { id } = await peer.hear('message.retry');
  peer.say(started({ id, replaces: 'a' }), delta(2, 'Є '));
  peer.socket.terminate();
  const again = await script.peer();
  const messages = [
    message('q', 'user', 'Що є?'),
    digest('d1'),
    message('a2', 'assistant', 'Є дві.'),
    digest('d2'),
  ];
  await again.reopen({ session_id: 's', turn_id: 't', after: 2 }, { messages });
  const last = (await all(answer)).events.at(-1);
  assert.ok(last?.type === 'message.completed');
  assert.equal(last.message.id, 'a2');
  assert.deepEqual(arrived, ['d1', 'd2']);
});

/** Opens a client with the session `s`, and collects its arrivals. */
async function openListener(t: Parameters<typeof openPair>[0], messages: object[] = []) {
  const pair = await openPair(t);
  const arrived: ReceivedMessage[] = [];
  pair.client.onArrived((one) => arrived.push(one));
  const opening = pair.client.openSession('s');
  const { id } = await pair.peer.hear('session.open');
  const opened = { type: 'session.opened', id, session_id: 's', session, messages, turn: null };
  pair.peer.say(opened);
  await opening;
  return { ...pair, arrived, opened };
}

test('Questions of other clients arrive with their answers, own ones do not', async (t) => {
  const { client, peer, arrived } = await openListener(t);
  const answer = client.send('s', 'Що є?');
  const { id, client_message_id: name } = await say(peer);
  const mine = message('q', 'user', 'Що є?', { client_message_id: name });
  peer.say(started({ id, message: mine }), completed(2, 'Є.', { id }));
  assert.equal(textOf((await all(answer)).events), '');
  const turn = { turn_id: 't2' };
  const theirs = message('q2', 'user', 'А дешевше?');
  peer.say(
    { ...started({ message: theirs }), ...turn },
    { ...delta(2, 'Ні.'), ...turn },
    { ...completed(3, 'Ні.'), ...turn },
    { ...started({ message: theirs, replaces: 'a' }), turn_id: 't3' },
    { ...completed(2, 'Так.'), turn_id: 't3' },
  );
  await cancel(client, peer);
  assert.deepEqual(
    arrived.map((one) => [one.sessionId, one.message.content]),
    [
      ['s', 'А дешевше?'],
      ['s', 'А дешевше?'],
    ],
  );
  const [first, second] = arrived.map(({ answer: theirAnswer }) => theirAnswer);
  assert.ok(first !== undefined && second !== undefined);
  assert.equal(textOf((await all(first)).events), 'Ні.');
  assert.deepEqual((await all(second)).events.at(-1)?.seq, 2);
});

test('Messages of other clients during an outage arrive with the next connection', async (t) => {
  const before = [message('q', 'user', 'Що є?'), message('a', 'assistant', 'Є.')];
  const { script, client, peer, arrived, opened } = await openListener(t, before);
  peer.socket.terminate();
  const again = await script.peer();
  const { id } = await again.hear('session.open');
  const missed = [message('q2', 'user', 'А дешевше?'), message('a2', 'assistant', 'Ні.')];
  const asked = message('q3', 'user', 'А в Києві?');
  again.say(
    { ...opened, id, messages: [...before, ...missed, asked], turn: { turn_id: 't3' } },
    { ...started({ message: asked }), turn_id: 't3' },
    { ...completed(2, 'Є.'), turn_id: 't3' },
  );
  await cancel(client, again);
  assert.deepEqual(
    arrived.map(({ message: { content }, answer }) => [content, answer !== undefined]),
    [
      ['А дешевше?', false],
      ['Ні.', false],
      ['А в Києві?', true],
    ],
  );
});
