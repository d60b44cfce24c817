import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { createLogger } from '@oselya/kit';
import { FIXED_AGENT_LIMITS } from '../../src/conversations/agent/agent.ts';
import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { isDeepStrictEqual } from 'node:util';
import { startProxy, until } from '@oselya/testing';
import { createOutageError, watchDatabase } from '@oselya/testing/database';
import { closeServer } from '@oselya/kit';
import type { ChatPart, ChatRequest } from '@oselya/model';
import { sql } from 'kysely';
import { Registry } from 'prom-client';
import { createChat } from '../../src/conversations/chat.ts';
import { openEventLog } from '../../src/conversations/event-log.ts';
import { Listener, type SessionFrame } from '../../src/conversations/listener.ts';
import { createChatMetrics } from '../../src/conversations/metrics.ts';
import { beginTurn } from '../../src/conversations/turns.ts';
import { SHIPPED_PROFILES } from '../../src/profiles/profiles.ts';
import { createUser } from '../helpers/people.ts';
import { listing } from '../helpers/scripted-collector.ts';
import { type SocketClient } from '../helpers/socket-client.ts';
import { createGate } from '../helpers/scripted-model.ts';
import { openTestProfiles } from '../profiles/folder.ts';
import {
  addSessions,
  createToolScript,
  openChatClient,
  openChatSession,
  type AnswerReader,
  listen,
  openStage,
  hasProblem,
  openRawClient,
  openRawSession,
} from './stage.ts';

const stage = await openStage();
const { collector, db, engine, model, readMessages, url } = stage;
const otherUrl = await stage.startInstance();
const sid = await stage.signIn('u-olena');
const olena = { url, sid };
const otherProcess = { url: otherUrl, sid };
const shortAnswers = { url: await stage.startInstance({ ANSWER_MAX_TOKENS: '5' }), sid };

/** Creates a gate that opens at the end of the test at the latest. */
function createTestGate(t: TestContext) {
  const testGate = createGate();
  t.after(testGate.open);
  return testGate;
}

/** Returns the stored messages of a question and its answer. */
const createExchange = (question: string, answer: string, status: string | null = null) => [
  ['user', question, null],
  ['assistant', answer, status],
];

test('A client that loses the connection gets the whole answer once, from any process', async (t) => {
  const [reconnectGate, restGate, endGate] = [
    createTestGate(t),
    createTestGate(t),
    createTestGate(t),
  ];
  const words = ['Раз ', reconnectGate.opened, 'два ', restGate.opened, 'три ', endGate.opened];
  model.scripts.push({ words: [...words, 'чотири.'] });
  const proxy = await startProxy(url);
  const { client, id } = await openChatSession(t, { url: proxy.url, sid });
  const answer = client.say(id, 'Рахуй');
  await answer.waitForText('Раз ');
  const secondClient = await openChatClient(t, olena);
  const watchedAnswer = (await secondClient.open(id)).answer;
  assert.ok(watchedAnswer);
  for (const [{ open }, expectedText, nextUrl] of [
    [reconnectGate, 'два ', otherUrl],
    [restGate, 'три ', url],
  ] as const) {
    await proxy.interrupt();
    open();
    await watchedAnswer.waitForText(expectedText);
    assert.ok(!answer.streamedText.includes(expectedText));
    proxy.setTarget(nextUrl);
    await proxy.restore();
    await answer.waitForText(expectedText);
  }
  endGate.open();
  const { message } = await answer.waitFor('message.completed');
  assert.equal(message.content, 'Раз два три чотири.');
  assert.equal(answer.streamedText, message.content);
  assert.deepEqual(client.statuses.filter(({ type }) => type === 'connected').length, 3);
  assert.deepEqual(await readMessages(id), createExchange('Рахуй', 'Раз два три чотири.'));
});

test('Changes reach every subscribed client of the user, on any process, with unread messages', async (t) => {
  const writer = await openRawClient(t, olena);
  const reader = await openRawClient(t, otherProcess);
  const stranger = await openRawClient(t, { url, sid: await stage.signIn('u-taras') });
  await stranger.ask({ type: 'user.subscribe' });
  await db.updateTable('conversation_sessions').set({ read_at: new Date() }).execute();
  assert.deepEqual((await reader.ask({ type: 'user.subscribe' }))['unread'], []);
  const waitForUnread = (expected: unknown[]) =>
    until(`unread ${JSON.stringify(expected)}`, () =>
      isDeepStrictEqual(reader.getFrames('user.changed').at(-1)?.['unread'], expected),
    );
  const id = await writer.newSession();
  await writer.complete(id, 'Привіт');
  await waitForUnread([{ session_id: id, count: 1 }]);
  const lateReader = await openRawClient(t, olena);
  const { unread } = await lateReader.ask({ type: 'user.subscribe' });
  assert.deepEqual(unread, [{ session_id: id, count: 1 }]);
  await writer.ask({ type: 'session.mark_read', session_id: id });
  await waitForUnread([]);
  await db.insertInto('listing_marks').values({ user_id: 'u-olena', listing_id: 7 }).execute();
  await until(() => reader.getFrames('user.changed').at(-1)?.['part'] === 'marks');
  assert.deepEqual(stranger.getFrames('user.changed'), []);
  assert.deepEqual(writer.getFrames('user.changed'), []);
});

test('An impossible `after` is rejected, and one beyond the end brings no event', async (t) => {
  const { client, id } = await openRawSession(t, olena);
  await client.complete(id, 'Так?');
  await client.waitFor('session.updated');
  const turnId = client.getFrames('message.started')[0]?.['turn_id'];
  const open = (after: number) =>
    client.outcome({ type: 'session.open', session_id: id, turn_id: turnId, after });
  for (const after of [2 ** 31, 1e300, -1, 0.5]) {
    assert.equal(await open(after), 'validation_failed', String(after));
  }
  const frameCount = client.frames.length;
  assert.equal(await open(2 ** 31 - 1), 'ok');
  assert.equal(await client.outcome({ type: 'ping' }), 'ok');
  assert.deepEqual(
    client.frames.slice(frameCount).map(({ type }) => type),
    ['session.opened', 'pong'],
  );
});

const noSuchModel = { status: 400, body: { error: { message: 'No such model' } } };

/** Cancels an answer after its first word. Returns the client, the session ID and the message. */
async function cancelAnswer(t: TestContext) {
  const restGate = createTestGate(t);
  model.scripts.push({ words: ['Початок', restGate.opened, ' і кінець'] });
  const { client, id } = await openChatSession(t, olena);
  const answer = client.say(id, 'Розкажи');
  await answer.waitForText('Початок');
  await client.cancel(id);
  const { message } = await answer.waitFor('message.completed');
  return { client, id, message };
}

test('A cancelled answer is kept and can be retried', async (t) => {
  const { client, id, message } = await cancelAnswer(t);
  assert.partialDeepStrictEqual(message, { content: 'Початок', status: 'cancelled' });
  assert.deepEqual(await readMessages(id), createExchange('Розкажи', 'Початок', 'cancelled'));
  await assert.rejects(client.cancel(id), hasProblem('no_turn_running'));

  model.scripts.push({ words: ['Усе.'] });
  await client.retry(id).waitFor('message.completed');
  // The request omits the replaced answer.
  const [, ...sentMessages] = model.chatRequests.at(-1)?.messages ?? [];
  assert.deepEqual(
    sentMessages.map(({ role }) => role),
    ['user'],
  );
  assert.deepEqual(await readMessages(id), createExchange('Розкажи', 'Усе.'));
  assert.equal((await client.retry(id).waitForFailure()).problem?.code, 'nothing_to_retry');
});

test('A retry without text keeps the earlier answer', async (t) => {
  const { client, id, message } = await cancelAnswer(t);
  const expectedMessages = createExchange('Розкажи', 'Початок', 'cancelled');

  model.scripts.push({ answer: noSuchModel });
  const failedEvent = await client.retry(id).waitFor('error');
  assert.equal(failedEvent.problem.code, 'model_failed');
  assert.deepEqual(failedEvent.message, message);
  assert.deepEqual(await readMessages(id), expectedMessages);

  const silenceGate = createTestGate(t);
  model.scripts.push({ words: [silenceGate.opened, 'Пізно'] });
  const requestCount = model.chatRequests.length;
  const silentAnswer = client.retry(id);
  await until(() => model.chatRequests.length > requestCount);
  await client.cancel(id);
  assert.deepEqual((await silentAnswer.waitFor('message.completed')).message, message);
  assert.deepEqual(await readMessages(id), expectedMessages);

  model.scripts.push({ words: ['Усе.'] });
  const lastAnswer = client.retry(id);
  assert.equal((await lastAnswer.waitFor('message.started')).replaces, message.id);
  await lastAnswer.waitFor('message.completed');
  assert.deepEqual(await readMessages(id), createExchange('Розкажи', 'Усе.'));
});

test('The answer of a dead process is cut, and every client gets its end', async (t) => {
  const restGate = createTestGate(t);
  model.scripts.push({ words: ['Почав', restGate.opened, ' і зник'] });
  const { client: otherClient, id } = await openChatSession(t, otherProcess);
  const answer = otherClient.say(id, 'Пиши');
  await answer.waitForText('Почав');
  const isStored = async () => {
    const { rows } = await sql`select from chat_turn_events
      where last_seq >= 2 and turn_id in (select id from chat_turns where session_id = ${id})`.execute(
      db,
    );
    return rows.length > 0;
  };
  await until(isStored);
  // The raw client claims to have more events than the database.
  const client = await openRawClient(t, olena);
  const turnId = answer.events[0]?.turn_id;
  const openMessage = { type: 'session.open', session_id: id, turn_id: turnId, after: 40 };
  assert.deepEqual((await client.ask(openMessage))['turn'], { turn_id: turnId });
  const secondClient = await openChatClient(t, olena);
  await until(async () => {
    // Repeat the update, because the process renews its lease.
    await sql`update chat_turns set lease_until = now() - interval '1 second'
      where session_id = ${id}`.execute(db);
    return (await secondClient.open(id)).answer === undefined;
  });
  const { message } = await client.waitFor('message.completed');
  assert.partialDeepStrictEqual(message, { content: 'Почав', status: 'cut' });
  assert.deepEqual(await readMessages(id), createExchange('Пиши', 'Почав', 'cut'));
  // The process with the expired lease also publishes the end of the turn.
  restGate.open();
  assert.partialDeepStrictEqual((await answer.waitFor('message.completed')).message, {
    status: 'cut',
  });
  // A client that claims more events than the database also receives the last event after a reconnect.
  const lateClient = await openRawClient(t, olena);
  assert.equal((await lateClient.ask(openMessage))['turn'], null);
  await lateClient.waitFor('message.completed');
  assert.equal(lateClient.streamedText, '');
  await secondClient.retry(id).waitFor('message.completed');
  assert.deepEqual(await readMessages(id), createExchange('Пиши', 'Готово.'));
});

test('Deleting a session ends its answer for every client, without a message', async (t) => {
  const { client, id } = await openChatSession(t, olena);
  const { turn_id, seq: after } = await client.say(id, 'Привіт').waitFor('message.completed');
  // The raw client has all events of the previous answer.
  const currentClient = await openRawClient(t, olena);
  await currentClient.ask({ type: 'session.open', session_id: id, turn_id, after });
  const restGate = createTestGate(t);
  model.scripts.push({ words: ['Ще ', restGate.opened, 'дещо'] });
  const answer = client.say(id, 'Розкажи');
  await answer.waitForText('Ще ');
  const deletion = await stage.app.inject({
    method: 'DELETE',
    url: `/sessions/${id}`,
    cookies: { svc_auth_session: sid },
  });
  assert.equal(deletion.statusCode, 200);
  for (const event of [await answer.waitFor('error'), await currentClient.waitFor('error')]) {
    assert.equal(event.problem?.code, 'session_not_found');
    assert.ok(!('message' in event));
  }
  assert.equal(currentClient.getFrames('message.completed').length, 0, 'each event comes once');
});

const getOutcomes = (frames: { type: string; problem?: { code: string } }[]) =>
  frames.map(({ type, problem }) => problem?.code ?? type).toSorted();

/** Returns the sequence numbers of a turn's events, in order of arrival. */
const getSeqs = ({ frames }: SocketClient, turnId: unknown) =>
  frames.flatMap(({ seq, turn_id }) => (turn_id === turnId ? [seq] : []));

/** Returns consecutive numbers. */
const createRange = (firstNumber: number, count: number) =>
  Array.from({ length: count }, (_, n) => firstNumber + n);

test('One of two concurrent messages on two processes begins a turn', async (t) => {
  const client = await openRawClient(t, olena);
  const otherClient = await openRawClient(t, otherProcess);
  for (let round = 0; round < 5; round += 1) {
    const restGate = createTestGate(t);
    model.scripts.push({ words: [restGate.opened, 'Так.'] });
    const id = await client.newSession();
    const replies = await Promise.all([client.say(id, 'Перше'), otherClient.say(id, 'Друге')]);
    assert.deepEqual(getOutcomes(replies), ['message.started', 'turn_running']);
    const [winner, text] =
      replies[0].type === 'message.started' ? [client, 'Перше'] : [otherClient, 'Друге'];
    const completedCount = winner.getFrames('message.completed').length;
    restGate.open();
    await winner.waitFor('message.completed', completedCount + 1);
    assert.deepEqual(await readMessages(id), createExchange(text, 'Так.'));
  }
});

test('A message that is sent again with its client id is stored and answered once', async (t) => {
  const { client, id } = await openRawSession(t, olena);
  const otherClient = await openRawClient(t, otherProcess);
  const requestCount = model.chatRequests.length;
  const messageKey = { client_message_id: 'm-1' };
  const replies = await Promise.all(
    [client, otherClient].map((sender) => sender.say(id, 'Один раз', messageKey)),
  );
  assert.deepEqual(getOutcomes(replies), ['message.repeated', 'message.started']);
  await until(async () => (await readMessages(id)).length === 2);
  const repeatedReply = await client.say(id, 'Один раз', messageKey);
  assert.equal(repeatedReply.type, 'message.repeated');
  const turnIds = [...replies, repeatedReply].map((frame) => frame['turn_id']);
  assert.equal(new Set(turnIds).size, 1);
  const conflictReply = await client.say(id, 'Інше', messageKey);
  assert.equal(conflictReply.problem?.code, 'message_name_taken');
  assert.deepEqual(await readMessages(id), createExchange('Один раз', 'Готово.'));
  assert.equal(model.chatRequests.length, requestCount + 1);
});

test('A user has at most three running answers', async (t) => {
  const restGate = createTestGate(t);
  const client = await openRawClient(t, olena);
  const otherClient = await openRawClient(t, otherProcess);
  for (const rawClient of [client, otherClient, client]) {
    model.scripts.push({ words: [restGate.opened, 'Так.'] });
    assert.equal(
      (await rawClient.say(await rawClient.newSession(), 'Пиши')).type,
      'message.started',
    );
  }
  const fourthSessionId = await otherClient.newSession();
  const { problem } = await otherClient.say(fourthSessionId, 'І ще');
  assert.partialDeepStrictEqual(problem, { code: 'too_many_turns', status: 409 });
  assert.deepEqual(await readMessages(fourthSessionId), []);
  // Each user has a separate limit.
  const taras = await openRawClient(t, { url, sid: await stage.signIn('u-taras') });
  assert.equal((await taras.say(await taras.newSession(), 'Привіт')).type, 'message.started');

  restGate.open();
  await client.waitFor('message.completed', 2);
  await otherClient.waitFor('message.completed');
  assert.equal((await otherClient.say(fourthSessionId, 'І ще')).type, 'message.started');
  await otherClient.waitFor('message.completed', 2);
});

test('A client resumes after any event, among tools and in a retry, and cancels an answer of another process', async (t) => {
  collector.listings = [listing(7)];
  const restGate = createTestGate(t);
  const search = createToolScript('search_listings', { query: 'дім' });
  model.scripts.push(search, { words: ['Раз ', restGate.opened, 'два.'] });
  const firstClient = await openRawClient(t, olena);
  // A named session gets no title event.
  const createdFrame = await firstClient.ask({ type: 'session.create', name: 'Дім' });
  const id = String(createdFrame['session_id']);
  await firstClient.say(id, 'Шукай');
  await firstClient.waitForText('Раз ');
  const turnId = firstClient.getFrames('message.started')[0]?.['turn_id'];
  const open = { type: 'session.open', session_id: id };

  // The second client already has the event `tool.started`.
  const secondClient = await openRawClient(t, otherProcess);
  const startedSeq = firstClient.getFrames('tool.started')[0]?.['seq'];
  assert.equal(startedSeq, 2);
  await secondClient.ask({ ...open, turn_id: turnId, after: startedSeq });
  await secondClient.waitForText('Раз ');
  secondClient.send({ type: 'message.cancel', session_id: id });
  const { message } = await secondClient.waitFor('message.completed');
  assert.partialDeepStrictEqual(message, { content: 'Раз ', status: 'cancelled' });
  assert.equal(secondClient.getFrames('tool.started').length, 0);
  assert.equal(secondClient.getFrames('tool.finished').length, 1);
  assert.deepEqual(
    getSeqs(secondClient, turnId),
    createRange(3, getSeqs(secondClient, turnId).length),
  );

  const retryGate = createTestGate(t);
  model.scripts.push({ words: ['Знову ', retryGate.opened, 'так.'] });
  secondClient.send({ type: 'message.retry', session_id: id });
  const { turn_id: retryTurnId, replaces } = await secondClient.waitFor('message.started');
  assert.equal(typeof replaces, 'string');
  await secondClient.waitForText('Знову ');
  // The third client has an event of the retry, and the fourth has events of the replaced answer.
  const thirdClient = await openRawClient(t, olena);
  await thirdClient.ask({ ...open, turn_id: retryTurnId, after: 1 });
  const fourthClient = await openRawClient(t, olena);
  await fourthClient.ask({ ...open, turn_id: turnId, after: 3 });
  retryGate.open();
  for (const rawClient of [thirdClient, fourthClient]) {
    await rawClient.waitFor('message.completed');
    assert.equal(rawClient.streamedText, 'Знову так.');
    assert.deepEqual(getSeqs(rawClient, turnId), []);
  }
  await secondClient.waitFor('message.completed', 2);
  const count = getSeqs(secondClient, retryTurnId).length;
  assert.deepEqual(getSeqs(thirdClient, retryTurnId), createRange(2, count - 1));
  assert.deepEqual(getSeqs(fourthClient, retryTurnId), createRange(1, count));
  assert.deepEqual(await readMessages(id), createExchange('Шукай', 'Знову так.'));
});

test('A stopping process serves only liveness and metrics until its last turn ends', async (t) => {
  const stoppingApp = await stage.createInstance();
  const restGate = createTestGate(t);
  model.scripts.push({ words: ['Ще ', restGate.opened, 'дещо'] });
  const stoppingUrl = await listen(stoppingApp);
  const { client, id } = await openChatSession(t, { url: stoppingUrl, sid });
  const answer = client.say(id, 'Розкажи');
  await answer.waitForText('Ще ');
  const fetchStatuses = (...paths: string[]) =>
    Promise.all(
      paths.map(async (path) => {
        const headers = { cookie: `svc_auth_session=${sid}` };
        return (await fetch(stoppingUrl + path, { headers })).status;
      }),
    );
  assert.deepEqual(await fetchStatuses('/health/ready', '/sessions'), [200, 200]);

  const closePromise = closeServer(stoppingApp, 60_000);
  await until(() => client.statuses.some(({ type }) => type === 'waiting'));
  const rejectedPaths = ['/health/ready', '/health', '/sessions'];
  assert.deepEqual(await fetchStatuses(...rejectedPaths), [503, 503, 503]);
  assert.deepEqual(await fetchStatuses('/health/live', '/metrics'), [200, 200]);
  restGate.open();
  await closePromise;
  assert.deepEqual((await readMessages(id)).at(-1), ['assistant', 'Ще дещо', null]);
});

/** Returns the status of a session's turn. */
const findTurnStatus = async (sessionId: string): Promise<string | undefined> => {
  const turns = db.selectFrom('chat_turns').select('status');
  return (await turns.where('session_id', '=', sessionId).executeTakeFirst())?.status;
};

test('A starting process cuts the turns without a process, and their clients get the end', async (t) => {
  const restGate = createTestGate(t);
  const client = await openChatClient(t, olena);
  const ids: string[] = [];
  const answers: AnswerReader[] = [];
  for (const text of ['Перше', 'Друге']) {
    model.scripts.push({ words: [`${text} почав`, restGate.opened, ' і скінчив'] });
    const id = await client.newSession();
    ids.push(id);
    const answer = client.say(id, text);
    answers.push(answer);
    await answer.waitForText(`${text} почав`);
  }
  const [freshSessionId = '', silentSessionId = ''] = ids;
  await until(async () => {
    const { rows } = await sql`select distinct turn_id from chat_turn_events
      join chat_turns on chat_turns.id = turn_id
      where last_seq >= 2 and session_id = any(${ids}::text[])`.execute(db);
    return rows.length === 2;
  });
  await stage.startInstance();
  await until(async () => {
    // Repeat the update, because the process renews its lease.
    await sql`update chat_turns set lease_until = now() - interval '1 second'
      where session_id = ${silentSessionId}`.execute(db);
    return (await findTurnStatus(silentSessionId)) === 'cut';
  });
  const completed = await answers[1]?.waitFor('message.completed');
  assert.partialDeepStrictEqual(completed?.message, { content: 'Друге почав', status: 'cut' });
  if (engine === 'postgres') {
    // The lease of this turn is valid.
    assert.equal(await findTurnStatus(freshSessionId), 'running');
    restGate.open();
    await until(async () => (await findTurnStatus(freshSessionId)) === 'completed');
    return;
  }
  // No other process can use the embedded database, so startup aborts all turns.
  await until(async () => (await findTurnStatus(freshSessionId)) === 'cut');
  assert.deepEqual(
    await readMessages(freshSessionId),
    createExchange('Перше', 'Перше почав', 'cut'),
  );
});

/** Waits for an answer's error, asserts that its text is stored once, and returns the problem code. */
async function waitForFailureCode(
  client: SocketClient,
  sessionId: string,
): Promise<string | undefined> {
  const { problem, message } = await client.waitFor('error');
  assert.partialDeepStrictEqual(message, {
    content: client.streamedText,
    status: 'failed',
    problem: { code: problem?.code },
  });
  assert.deepEqual((await readMessages(sessionId)).slice(1), [
    ['assistant', client.streamedText, 'failed'],
  ]);
  assert.equal(client.getFrames('message.completed').length, 0);
  return problem?.code;
}

test('An answer ends at its maximum tokens, and can be retried', async (t) => {
  model.scripts.push({ words: ['Раз ', 'два ', 'три ', 'чотири ', 'пʼять ', 'шість ', 'сім.'] });
  const { client, id } = await openRawSession(t, shortAnswers);
  await client.say(id, 'Рахуй');
  assert.equal(await waitForFailureCode(client, id), 'answer_too_long');
  assert.equal(client.streamedText, 'Раз два три чотири пʼять ');

  model.scripts.push({ words: ['Раз', ', два.'] });
  await client.ask({ type: 'message.retry', session_id: id });
  await client.waitFor('message.completed');
  assert.deepEqual((await readMessages(id)).slice(1), [['assistant', 'Раз, два.', null]]);
});

test('An answer ends at its maximum time, during the model or a tool', async (t) => {
  const hurriedUrl = await stage.startInstance({ ANSWER_MAX_SECONDS: '4' });
  const restGate = createTestGate(t);
  const details = createToolScript('get_listing', { listing_id: 1 });
  const slowAnswers = [
    { script: { words: ['Ще ', restGate.opened, 'трохи'] }, text: 'Ще ', steps: [] },
    { script: details, text: '', steps: [{ title: 'Reading listing #1', status: 'failed' }] },
  ];
  collector.failure = 'silence';
  t.after(() => {
    collector.failure = undefined;
  });
  const endChecks: (() => Promise<void>)[] = [];
  for (const { script, text, steps } of slowAnswers) {
    model.scripts.push(script);
    const { client, id } = await openRawSession(t, { url: hurriedUrl, sid });
    const requestCount = model.chatRequests.length;
    await client.say(id, 'Розкажи');
    await until(() => model.chatRequests.length > requestCount);
    endChecks.push(async () => {
      assert.equal(await waitForFailureCode(client, id), 'answer_too_slow');
      assert.equal(client.streamedText, text);
      const storedSteps = await stage.listSteps(id);
      assert.equal(storedSteps.length, steps.length);
      assert.partialDeepStrictEqual(storedSteps, steps);
    });
  }
  for (const checkEnd of endChecks) await checkEnd();
});

test('The smallest window has room for tools, and rejects a question that is too long', async (t) => {
  const smallUrl = await stage.startInstance({ MODEL_CONTEXT_TOKENS: '2048' });
  collector.listings = Array.from({ length: 5 }, (_, index) => listing(index + 1));
  const { client, id } = await openRawSession(t, { url: smallUrl, sid });
  const requestCount = model.chatRequests.length;
  const search = createToolScript('search_listings', { query: 'двокімнатна' });
  model.scripts.push(search, { words: ['Є одна.'] });
  await client.complete(id, 'Двокімнатна у Львові?');
  assert.equal(client.streamedText, 'Є одна.');
  const output = String(model.chatRequests.at(-1)?.messages.at(-1)?.content);
  assert.match(output, /^\{"total":.*"listing_id":1,.*… \(cut off: \d+ bytes\)$/);

  await client.say(id, 'слово '.repeat(500));
  assert.equal((await client.waitFor('error')).problem?.code, 'message_too_long');
  await client.complete(id, 'Скільки коштує?');
  // Instructions and tools alone take more than 1,500 of the 2,048 tokens.
  for (const { max_tokens } of model.chatRequests.slice(requestCount) as {
    max_tokens?: number;
  }[]) {
    assert.ok(max_tokens !== undefined && max_tokens > 100 && max_tokens < 548, String(max_tokens));
  }
});

/** Adds a session with the default profile and returns its ID. */
async function addSession(userId: string): Promise<string> {
  const id = randomUUID();
  await addSessions(db, { id, user_id: userId, profile_id: 'default', name: 'Пошук' });
  return id;
}

const log = createLogger({ level: 'silent', service: 'test' });

/**
 * Creates a chat whose shutdown cuts answers after 10 ms, with a new session. The returned functions act as its owner.
 * @param streamChat Streams the model's answer.
 */
async function openShortChat(
  streamChat: (request: ChatRequest) => AsyncGenerator<ChatPart, void, undefined>,
  { chatDb = db, onOverdue = () => {} }: { chatDb?: typeof db; onOverdue?: () => void } = {},
) {
  const events = await openEventLog({ db, listen: stage.listen, log });
  const chat = createChat({
    db: chatDb,
    events: {
      ...events,
      // The shutdown calls this function when the time limit of the running turns has passed.
      listRunningTurns() {
        onOverdue();
        return events.listRunningTurns();
      },
    },
    model: { streamChat },
    services: { collector: { forUser: () => ({}) } } as never,
    contextTokens: 8192,
    profiles: await openTestProfiles(SHIPPED_PROFILES),
    limits: { ...FIXED_AGENT_LIMITS, outputTokens: 100, ms: 600_000 },
    metrics: createChatMetrics(new Registry()),
    log,
    shutdownMs: 10,
  });
  const user = createUser(`u-${randomUUID()}`, ['svc.tools.use']);
  const sessionId = await addSession(user.id);
  const sender = {
    requestId: 'r',
    onBegin: () => undefined,
    watchUser: () => ({ current: () => Promise.resolve(user), release: () => undefined }),
  };
  return {
    sessionId,
    send: (text: string) => chat.send(user, { sessionId, text }, sender),
    cancel: () => chat.cancel(user, sessionId),
    close: () => chat.close(),
  };
}

test('A shutdown rejects messages, and cuts an answer that takes too long', async (t) => {
  const startGate = createGate();
  const { sessionId, send, close } = await openShortChat(async function* ({ signal }) {
    yield { type: 'text', text: 'Почав' };
    startGate.open();
    await once(signal ?? t.signal, 'abort');
    signal?.throwIfAborted();
  });
  await send('Пиши');
  await startGate.opened;
  const closePromise = close();
  await assert.rejects(send('Ще'), { code: 'unavailable' });
  await closePromise;
  assert.deepEqual(await readMessages(sessionId), createExchange('Пиши', 'Почав', 'cut'));
});

test('A turn that starts after the time of a shutdown is cut', async () => {
  const overdueGate = createGate();
  let closePromise: Promise<void> | undefined;
  const chatDb = watchDatabase(db, {
    async after(text) {
      if (!/insert.*chat_turns/i.test(text)) return;
      closePromise = close();
      await overdueGate.opened;
    },
  });
  const { sessionId, send, close } = await openShortChat(
    async function* () {
      yield { type: 'text', text: 'Запізно' };
    },
    { chatDb, onOverdue: overdueGate.open },
  );
  await send('Пиши');
  await closePromise;
  assert.deepEqual(await readMessages(sessionId), createExchange('Пиши', '', 'cut'));
});

test('A shutdown does not wait for a cancelled turn that an outage keeps from being stored', async (t) => {
  const startGate = createGate();
  let [isAway, lossCount, hasClosed] = [false, 0, false];
  t.after(() => {
    isAway = false;
  });
  const chatDb = watchDatabase(db, {
    before() {
      if (!isAway) return;
      lossCount += 1;
      throw createOutageError();
    },
  });
  const { send, cancel, close } = await openShortChat(
    async function* ({ signal }) {
      yield { type: 'text', text: 'Почав' };
      startGate.open();
      await once(signal ?? t.signal, 'abort');
      isAway = true;
      signal?.throwIfAborted();
    },
    { chatDb },
  );
  await send('Пиши');
  await startGate.opened;
  await cancel();
  await until(() => lossCount > 0);
  const closePromise = close().finally(() => {
    hasClosed = true;
  });
  await until('the shutdown', () => hasClosed, 15_000);
  await closePromise;
});

test('A resumed listener sends the events and the rename of its pause', async (t) => {
  const events = await openEventLog({ db, listen: stage.listen, log });
  t.after(() => events.close());
  const userId = 'u-listener';
  const sessionId = await addSession(userId);
  const startedTurn = await beginTurn(db, { userId, sessionId }, { text: 'Рахуй' });
  assert.ok('key' in startedTurn);
  const turn = events.start(startedTurn.key);
  const sentFrames: SessionFrame[] = [];
  const send = (frame: SessionFrame) => void sentFrames.push(frame);
  const listener = new Listener({ events, sessionId, send, requestId: 'r', log });
  t.after(() => listener.close());
  listener.resume({ ...startedTurn.key, seq: 0, hasEnded: false });
  turn.append({ type: 'message.delta', text: 'Раз ' });
  await until(() => sentFrames.length === 1);
  listener.pause();
  turn.append({ type: 'message.delta', text: 'два' });
  await db
    .updateTable('conversation_sessions')
    .set({ name: 'Двір' })
    .where('id', '=', sessionId)
    .execute();
  listener.resume();
  await until(() => sentFrames.length === 3);
  assert.deepEqual(
    sentFrames.map(({ type }) => type),
    ['message.delta', 'message.delta', 'session.updated'],
  );
});
