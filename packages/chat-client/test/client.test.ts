import assert from 'node:assert/strict';
import { openChat, reconnectDelayMs, type ReceivedMessage } from '../src/client.ts';
import { checkFrame, createCookieSocketOpener } from '../src/node.ts';
import {
  acceptSession,
  readAnswer,
  startAnswer,
  cancel,
  completedEvent,
  cookie,
  createOpenedFrame,
  deltaEvent,
  event,
  message,
  openClientAndPeer,
  receiveMessage,
  session,
  startScript,
  startedEvent,
  joinText,
  type Peer,
  TURN,
} from './support.ts';
import { once } from 'node:events';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { findUnusedUrl, until } from '@oselya/testing';

/** Returns the position after an event of the turn `t`. */
const createPosition = (after: number) => ({ ...TURN, after });

const repeatedFrame = { type: 'message.repeated', ...TURN, client_message_id: 'm' };

test('A gap is requested once, and filled in order', async (t) => {
  const { client, peer } = await openClientAndPeer(t);
  const answer = await startAnswer(
    client,
    peer,
    deltaEvent(2, 'а'),
    deltaEvent(4, 'в'),
    deltaEvent(5, 'г'),
  );
  await peer.reopen(createPosition(2), { turn: 't' }, [deltaEvent(5, 'бвг'), deltaEvent(5, 'бвг')]);
  peer.send(deltaEvent(6, 'ґ'), completedEvent(7, 'абвгґ'));
  assert.equal(joinText((await readAnswer(answer)).events), 'абвгґ');
});

test('The end of a cut answer counts even if its number repeats', async (t) => {
  const { client, peer } = await openClientAndPeer(t);
  const answer = await startAnswer(
    client,
    peer,
    deltaEvent(2, 'Є'),
    completedEvent(2, 'Є', { status: 'cut' }),
  );
  const last = (await readAnswer(answer)).events.at(-1);
  assert.partialDeepStrictEqual(last, { type: 'message.completed', message: { status: 'cut' } });
});

test('Unknown events keep their number and are ignored', async (t) => {
  const { client, peer } = await openClientAndPeer(t);
  const answer = client.send('s', 'Що є?');
  const { id } = await receiveMessage(peer);
  peer.send({ type: 'weather', sun: true });
  peer.send(
    startedEvent({ id }),
    event(2, 'thought', { text: '?' }),
    deltaEvent(3, 'Так'),
    completedEvent(4, 'Так'),
  );
  const { events } = await readAnswer(answer);
  assert.deepEqual(
    events.map(({ type }) => type),
    ['message.started', 'message.delta', 'message.completed'],
  );
});

test('An answer that has ended during the disconnection ends with its stored message', async (t) => {
  const storedAnswers = {
    'message.completed': message('a', 'assistant', 'Є дві.'),
    error: message('a', 'assistant', 'Є', {
      status: 'failed',
      problem: { title: 'No', status: 502, code: 'model_failed', detail: 'Try again.' },
    }),
  };
  for (const [type, storedAnswer] of Object.entries(storedAnswers)) {
    const { script, client, peer } = await openClientAndPeer(t);
    const answer = await startAnswer(client, peer, deltaEvent(2, 'Є '));
    const newPeer = await script.reconnect(peer);
    const messages = [message('q', 'user', 'Що є?'), storedAnswer, message('q2', 'user', 'А ще?')];
    await newPeer.reopen(createPosition(2), { messages });
    const last = (await readAnswer(answer)).events.at(-1);
    assert.partialDeepStrictEqual(last, { type, message: { content: storedAnswer.content } });
  }
});

test('An answer that is neither running nor stored is lost', async (t) => {
  const { script, client, peer } = await openClientAndPeer(t);
  const answer = await startAnswer(client, peer);
  const newPeer = await script.reconnect(peer);
  await newPeer.reopen(createPosition(1), { messages: [message('q', 'user', 'Що є?')] });
  assert.equal((await readAnswer(answer)).error?.code, 'answer_lost');
});

test('A repeated message is not confused with another turn', async (t) => {
  const { script, client, peer } = await openClientAndPeer(t);
  const answer = client.send('s', 'Що є?');
  const { client_message_id } = await receiveMessage(peer);
  const newPeer = await script.reconnect(peer);
  const { id } = await receiveMessage(newPeer);
  newPeer.send({ ...repeatedFrame, id, client_message_id });
  const messages = [
    message('q', 'user', 'Що є?', { client_message_id }),
    message('a', 'assistant', 'Є дві.'),
    message('q2', 'user', 'А ще?'),
  ];
  await newPeer.reopen(createPosition(0), { turn: 'other', messages }, [
    { ...deltaEvent(2, 'Ще три.'), turn_id: 'other' },
  ]);
  const { events } = await readAnswer(answer);
  assert.deepEqual(
    events.map((part) => 'message' in part && part.message?.content),
    ['Є дві.'],
  );
});

test('A retry without an answer is looked up before it is repeated', async (t) => {
  const { script, client, peer } = await openClientAndPeer(t);
  const answer = client.retry('s');
  await peer.receive('message.retry');
  const second = await script.reconnect(peer);
  const truncatedAnswer = message('a', 'assistant', 'Є', { status: 'cut' });
  await second.reopen(
    { session_id: 's' },
    { messages: [message('q', 'user', 'Що є?'), truncatedAnswer] },
  );
  const { id } = await second.receive('message.retry');
  second.send(
    startedEvent({ id, replaces: 'a' }),
    deltaEvent(2, 'Є дві.'),
    completedEvent(3, 'Є дві.'),
  );
  assert.equal(joinText((await readAnswer(answer)).events), 'Є дві.');
});

const createDigest = (id: string) => message(id, 'assistant', 'Нових: 1', { unasked: true });

test('A digest is not an answer to a question', async (t) => {
  const { script, client, peer } = await openClientAndPeer(t);
  const arrivedMessages: string[] = [];
  client.onArrived(({ message: { id: messageId } }) => arrivedMessages.push(messageId));
  const answer = client.retry('s');
  const { id } = await peer.receive('message.retry');
  peer.send(startedEvent({ id, replaces: 'a' }), deltaEvent(2, 'Є '));
  const newPeer = await script.reconnect(peer);
  const messages = [
    message('q', 'user', 'Що є?'),
    createDigest('d1'),
    message('a2', 'assistant', 'Є дві.'),
    createDigest('d2'),
  ];
  await newPeer.reopen(createPosition(2), { messages });
  const last = (await readAnswer(answer)).events.at(-1);
  assert.ok(last?.type === 'message.completed');
  assert.equal(last.message.id, 'a2');
  assert.deepEqual(arrivedMessages, ['d1', 'd2']);
});

/** Opens a client with the session `s`, and collects the messages that arrive. */
async function openListener(t: Parameters<typeof openClientAndPeer>[0], messages: object[] = []) {
  const clientAndPeer = await openClientAndPeer(t);
  const arrivedMessages: ReceivedMessage[] = [];
  clientAndPeer.client.onArrived((receivedMessage) => arrivedMessages.push(receivedMessage));
  const sessionOpening = clientAndPeer.client.openSession('s');
  const { id } = await clientAndPeer.peer.receive('session.open');
  clientAndPeer.peer.send(createOpenedFrame(id, messages));
  await sessionOpening;
  return { ...clientAndPeer, arrivedMessages };
}

test('Only the questions of other clients arrive, with their answers', async (t) => {
  const { client, peer, arrivedMessages } = await openListener(t);
  const answer = client.send('s', 'Що є?');
  const { id, client_message_id } = await receiveMessage(peer);
  const ownMessage = message('q', 'user', 'Що є?', { client_message_id });
  peer.send(startedEvent({ id, message: ownMessage }), completedEvent(2, 'Є.', { id }));
  assert.equal(joinText((await readAnswer(answer)).events), '');
  const turn = { turn_id: 't2' };
  const foreignMessage = message('q2', 'user', 'А дешевше?');
  peer.send(
    { ...startedEvent({ message: foreignMessage }), ...turn },
    { ...deltaEvent(2, 'Ні.'), ...turn },
    { ...completedEvent(3, 'Ні.'), ...turn },
    { ...startedEvent({ message: foreignMessage, replaces: 'a' }), turn_id: 't3' },
    { ...completedEvent(2, 'Так.'), turn_id: 't3' },
  );
  await cancel(client, peer);
  assert.deepEqual(
    arrivedMessages.map(({ sessionId, message: { content } }) => [sessionId, content]),
    [
      ['s', 'А дешевше?'],
      ['s', 'А дешевше?'],
    ],
  );
  const [first, second] = arrivedMessages.map(({ answer: theirAnswer }) => theirAnswer);
  assert.ok(first !== undefined && second !== undefined);
  assert.equal(joinText((await readAnswer(first)).events), 'Ні.');
  assert.deepEqual((await readAnswer(second)).events.at(-1)?.seq, 2);
});

test('Messages of other clients during an outage arrive with the next connection', async (t) => {
  const earlierMessages = [message('q', 'user', 'Що є?'), message('a', 'assistant', 'Є.')];
  const { script, client, peer, arrivedMessages } = await openListener(t, earlierMessages);
  const newPeer = await script.reconnect(peer);
  const { id } = await newPeer.receive('session.open');
  const missedMessages = [message('q2', 'user', 'А дешевше?'), message('a2', 'assistant', 'Ні.')];
  const askedMessage = message('q3', 'user', 'А в Києві?');
  newPeer.send(
    createOpenedFrame(id, [...earlierMessages, ...missedMessages, askedMessage], 't3'),
    { ...startedEvent({ message: askedMessage }), turn_id: 't3' },
    { ...completedEvent(2, 'Є.'), turn_id: 't3' },
  );
  await cancel(client, newPeer);
  assert.deepEqual(
    arrivedMessages.map(({ message: { content }, answer }) => [content, answer !== undefined]),
    [
      ['А дешевше?', false],
      ['Ні.', false],
      ['А в Києві?', true],
    ],
  );
});

/** Opens a client with the default reconnect delays. */
const openClient = (url: string) =>
  openChat({ url, openSocket: createCookieSocketOpener(cookie), checkFrame });

test('After a final close it does not reconnect, and everything pending fails', async (t) => {
  for (const [close, code] of [
    [4401, 'signed_out'],
    [4403, 'forbidden'],
    [1002, 'no_assistant'],
    [1007, 'no_assistant'],
  ] as const) {
    const script = await startScript(t);
    const [client, peer] = await Promise.all([openClient(script.url), script.peer()]);
    const answer = await startAnswer(client, peer);
    const sessionCreation = client.createSession();
    await peer.receive('session.create');
    peer.socket.close(close);
    await assert.rejects(sessionCreation, { code });
    assert.equal((await readAnswer(answer)).error?.code, code);
    await assert.rejects(client.cancel('s'), { code });
    assert.equal((await readAnswer(client.send('s', 'Що є?'))).error?.code, code);
  }
});

test('A message that was too large is not sent again, and running answers go on', async (t) => {
  const { script, client, peer } = await openClientAndPeer(t);
  const startedAnswer = await startAnswer(client, peer);
  const largeAnswer = client.send('s2', 'x'.repeat(100_000));
  await receiveMessage(peer);
  peer.socket.close(1009);
  assert.equal((await readAnswer(largeAnswer)).error?.code, 'too_large');
  const newPeer = await script.peer();
  await newPeer.reopen(createPosition(1), { turn: 't' });
  newPeer.send(completedEvent(2, 'Є.'));
  assert.equal((await readAnswer(startedAnswer)).error, undefined);
});

test('A handshake is repeated after 503 and 429 only', async (t) => {
  const { script, client, peer, statuses } = await openClientAndPeer(t);
  script.rejections.push(503, 429);
  peer.socket.terminate();
  await script.peer();
  const codes = statuses.flatMap((status) => (status.type === 'waiting' ? [status.code] : []));
  assert.deepEqual(codes, [1006, 1006, 4429]);
  script.rejections.push(403);
  await assert.rejects(openClient(script.url), { code: 'no_assistant', message: /HTTP 403/ });
  const sessionCreation = client.createSession();
  client.close();
  await assert.rejects(sessionCreation, { code: 'closed' });
});

test('A wait for the next connection can be ended', async (t) => {
  const { script, client, peer, statuses } = await openClientAndPeer(t, {
    getDelayMs: () => 3_600_000,
    reconnectTimeoutMs: Infinity,
  });
  client.reconnectNow();
  peer.socket.terminate();
  await until('the wait', () => statuses.at(-1)?.type === 'waiting');
  client.reconnectNow();
  await script.peer();
});

test('Changes of sessions are reported, and a message keeps a given name', async (t) => {
  const names: string[] = [];
  const { client, peer } = await openClientAndPeer(t, {
    onSessionUpdated: ({ name }) => names.push(name),
  });
  peer.send({ type: 'session.updated', session_id: 's', session: { ...session, name: 'Львів' } });
  client.send('s', 'Що є?', 'm-1');
  assert.equal((await receiveMessage(peer)).client_message_id, 'm-1');
  assert.deepEqual(names, ['Львів']);
});

test('A client fails immediately without a first connection, and later after its time limit', async (t) => {
  const failure = { code: 'unreachable', message: /ECONNREFUSED/ };
  await assert.rejects(openClient(await findUnusedUrl()), failure);

  const { client, peer, statuses } = await openClientAndPeer(t, { reconnectTimeoutMs: 0 });
  const answer = client.send('s', 'Що є?');
  await receiveMessage(peer);
  peer.socket.close(1011, 'The service failed');
  const { error } = await readAnswer(answer);
  assert.equal(error?.code, 'unreachable');
  assert.deepEqual(statuses, [{ type: 'connected' }, { type: 'ended', error }]);
});

const QUIET_MS = 30;

test('Only a server that answers no ping is reported as silent, and its next answer too', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const { client, peer, statuses } = await openClientAndPeer(t, { quietMs: QUIET_MS });
  const sessionCreation = client.createSession();
  const { id } = await peer.receive('session.create');
  const waitForPong = async () => {
    await peer.pinged();
    // The client's socket answers this control frame after the client has received the pong.
    peer.socket.ping();
    await once(peer.socket, 'pong');
  };
  for (let pingCount = 0; pingCount < 4; pingCount += 1) {
    t.mock.timers.tick(QUIET_MS / 3);
    await waitForPong();
  }
  assert.deepEqual(statuses, [{ type: 'connected' }]);
  // The first timer sends a ping, whose pong cannot arrive before the second timer fires.
  t.mock.timers.tick(QUIET_MS / 3);
  t.mock.timers.tick((QUIET_MS * 2) / 3);
  await waitForPong();
  peer.send({ type: 'session.created', id, session_id: 's', session });
  await sessionCreation;
  assert.deepEqual(statuses, [
    { type: 'connected' },
    { type: 'quiet', quietMs: QUIET_MS },
    { type: 'responsive' },
  ]);
});

test('A session is opened again until the server can answer, unless it is gone', async (t) => {
  const { script, client, peer } = await openClientAndPeer(t);
  const sessionOpening = client.openSession('s');
  const { id } = await peer.receive('session.open');
  peer.send(createOpenedFrame(id));
  await sessionOpening;
  const second = await script.reconnect(peer);
  for (const [status, code] of [
    [503, 'unavailable'],
    [404, 'session_not_found'],
  ] as const) {
    await rejectNext(second, 'session.open', { status, code, title: 'No' });
  }
  await cancel(client, second);
  const third = await script.reconnect(second);
  const sessionCreation = client.createSession();
  await acceptSession(third);
  await sessionCreation;
});

test('A server that only accepts connections is given up', async (t) => {
  const options = { reconnectTimeoutMs: 50 };
  const { script, client, peer, ended, statuses } = await openClientAndPeer(t, options);
  peer.socket.close(1012);
  const second = await script.peer();
  await sleep(2 * options.reconnectTimeoutMs);
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
    const { client, peer } = await openClientAndPeer(t);
    peer.socket.send(data);
    await assert.rejects(client.createSession(), { code: 'no_assistant' }, data);
  }
});

test('Delays follow docs/protocol.md', () => {
  for (const code of [1000, 1001, 1002, 1007, 4401, 4403]) {
    assert.equal(reconnectDelayMs(code, 0), null);
  }
  for (const code of [1006, 1009, 1011]) {
    for (const [attempt, maxMs] of [1000, 2000, 4000, 8000, 16_000, 30_000, 30_000].entries()) {
      const delayMs = reconnectDelayMs(code, attempt) ?? 0;
      assert.ok(delayMs >= maxMs / 2 && delayMs <= maxMs, `${code} ${attempt} ${delayMs}`);
    }
  }
  assert.ok((reconnectDelayMs(1012, 0) ?? Infinity) <= 2000);
  const delayMs = reconnectDelayMs(4429, 0) ?? 0;
  assert.ok(delayMs >= 60_000 && delayMs <= 120_000);
});

const UNAVAILABLE = { status: 503, code: 'unavailable', title: 'Service unavailable' };
const PROVIDER_UNAVAILABLE = { ...UNAVAILABLE, code: 'provider_unavailable' };

/** Answers the next message, which must have the given type, with a problem. */
async function rejectNext(peer: Peer, type: string, problem: object): Promise<void> {
  peer.send({ type: 'error', id: (await peer.receive(type)).id, problem });
}

test('A message that may be stored is repeated while the server is unavailable', async (t) => {
  const { script, client, peer, statuses } = await openClientAndPeer(t);
  const answer = client.send('s', 'Що є?');
  const { client_message_id } = await receiveMessage(peer);
  peer.socket.close(1012);
  const newPeer = await script.peer();
  for (const problem of [UNAVAILABLE, PROVIDER_UNAVAILABLE]) {
    const repeatedMessage = await receiveMessage(newPeer);
    assert.equal(repeatedMessage.client_message_id, client_message_id);
    newPeer.send({ type: 'error', id: repeatedMessage.id, problem });
  }
  const last = await receiveMessage(newPeer);
  assert.equal(last.client_message_id, client_message_id);
  newPeer.send({ ...repeatedFrame, id: last.id });
  const question = message('q', 'user', 'Що є?', { client_message_id });
  await rejectNext(newPeer, 'session.open', UNAVAILABLE);
  await newPeer.reopen(createPosition(0), { turn: 't', messages: [question] }, [startedEvent()]);
  newPeer.send(deltaEvent(2, 'Є дві.'), completedEvent(3, 'Є дві.'));
  const { events, error } = await readAnswer(answer);
  assert.equal(error, undefined);
  assert.equal(joinText(events), 'Є дві.');
  assert.deepEqual(statuses.slice(3), [
    { type: 'unavailable', problem: UNAVAILABLE, delayMs: 0 },
    { type: 'unavailable', problem: PROVIDER_UNAVAILABLE, delayMs: 0 },
    { type: 'unavailable', problem: UNAVAILABLE, delayMs: 0 },
  ]);
});

test('Creating a session is repeated during an outage only', async (t) => {
  const { client, peer, statuses } = await openClientAndPeer(t);
  const sessionCreation = client.createSession();
  await rejectNext(peer, 'session.create', UNAVAILABLE);
  await rejectNext(peer, 'session.create', PROVIDER_UNAVAILABLE);
  await acceptSession(peer);
  assert.equal((await sessionCreation).session_id, 's');
  assert.deepEqual(statuses.slice(1), [
    { type: 'unavailable', problem: UNAVAILABLE, delayMs: 0 },
    { type: 'unavailable', problem: PROVIDER_UNAVAILABLE, delayMs: 0 },
  ]);

  const basicProblem = { status: 404, code: 'profile_not_found', title: 'No such profile' };
  const detail = 'Choose another.';
  const errors = ['1', '2'].map((path) => ({ path, message: 'is wrong' }));
  for (const [members, expectedMessage] of [
    [{}, 'No such profile'],
    [{ detail }, 'No such profile: Choose another.'],
    [{ detail, errors }, 'No such profile: 1 is wrong; 2 is wrong'],
  ] as const) {
    const problem = { ...basicProblem, ...members };
    const rejectedCreation = client.createSession({ profileId: 'none' });
    await rejectNext(peer, 'session.create', problem);
    await assert.rejects(rejectedCreation, { code: 'rejected', message: expectedMessage, problem });
  }
  const failedCreation = client.createSession();
  for (let requestCount = 0; requestCount < 9; requestCount += 1)
    await rejectNext(peer, 'session.create', UNAVAILABLE);
  await assert.rejects(failedCreation, { code: 'rejected', problem: UNAVAILABLE });
});
