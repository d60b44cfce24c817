import { once } from 'node:events';
import { createLogger } from '@oselya/kit';
import { FIXED_AGENT_LIMITS } from '../../src/conversations/agent/agent.ts';
import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { until } from '@oselya/testing';
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
import { userOf } from '../helpers/people.ts';
import { listing } from '../helpers/scripted-collector.ts';
import { gate } from '../helpers/scripted-model.ts';
import { openFolder } from '../profiles/folder.ts';
import {
  openChatClient,
  type AnswerReader,
  listen,
  openStage,
  hasProblem,
  openRawClient,
  type RawClient,
  openProxy,
} from './stage.ts';

const stage = await openStage();
const { collector, db, engine, model, stored, url } = stage;
const other = await stage.another();
const sid = await stage.signIn('u-olena');
const olena = { url, sid };
const elsewhere = { url: other, sid };
const short = { url: await stage.another({ ANSWER_MAX_TOKENS: '5' }), sid };

test('A client that loses the connection gets the whole answer once, from any process', async (t) => {
  const [away, rest, end] = [gate(), gate(), gate()];
  t.after(() => {
    for (const { open } of [away, rest, end]) open();
  });
  const script = ['Раз ', away.opened, 'два ', rest.opened, 'три ', end.opened, 'чотири.'];
  model.scripts.push({ words: script });
  const proxy = await openProxy(t, url);
  const person = await openChatClient(t, { url: proxy.url, sid });
  const id = await person.newSession();
  const answer = person.say(id, 'Рахуй');
  await answer.waitForText('Раз ');
  const witness = await openChatClient(t, olena);
  const watched = (await witness.open(id)).answer;
  assert.ok(watched);
  for (const [{ open }, said, back] of [
    [away, 'два ', other],
    [rest, 'три ', url],
  ] as const) {
    await proxy.away();
    open();
    await watched.waitForText(said);
    assert.ok(!answer.streamed.includes(said));
    proxy.leadTo(back);
    await proxy.back();
    await answer.waitForText(said);
  }
  end.open();
  const { message } = await answer.waitFor('message.completed');
  assert.equal(message.content, 'Раз два три чотири.');
  assert.equal(answer.streamed, message.content);
  assert.deepEqual(person.statuses.filter(({ type }) => type === 'connected').length, 3);
  assert.deepEqual(await stored(id), [
    ['user', 'Рахуй', null],
    ['assistant', 'Раз два три чотири.', null],
  ]);
});

test('An impossible `after` is rejected, and one beyond the end brings no event', async (t) => {
  const here = await openRawClient(t, olena);
  const id = await here.newSession();
  await here.say(id, 'Так?');
  await here.waitFor('message.completed');
  await here.waitFor('session.updated');
  const turnId = here.of('message.started')[0]?.['turn_id'];
  const open = (after: number) =>
    here.client.outcome({ type: 'session.open', session_id: id, turn_id: turnId, after });
  for (const after of [2 ** 31, 1e300, -1, 0.5]) {
    assert.equal(await open(after), 'validation_failed', String(after));
  }
  const before = here.client.frames.length;
  assert.equal(await open(2 ** 31 - 1), 'ok');
  assert.equal(await here.client.outcome({ type: 'ping' }), 'ok');
  assert.deepEqual(
    here.client.frames.slice(before).map(({ type }) => type),
    ['session.opened', 'pong'],
  );
});

/** Cancels an answer after its first word, and returns its session. */
async function cancelled(t: TestContext) {
  const rest = gate();
  t.after(rest.open);
  model.scripts.push({ words: ['Початок', rest.opened, ' і кінець'] });
  const here = await openChatClient(t, olena);
  const id = await here.newSession();
  const answer = here.say(id, 'Розкажи');
  await answer.waitForText('Початок');
  await here.cancel(id);
  const { message } = await answer.waitFor('message.completed');
  return { here, id, message };
}

test('A cancelled answer is kept and can be retried', async (t) => {
  const { here, id, message } = await cancelled(t);
  assert.partialDeepStrictEqual(message, { content: 'Початок', status: 'cancelled' });
  assert.deepEqual(await stored(id), [
    ['user', 'Розкажи', null],
    ['assistant', 'Початок', 'cancelled'],
  ]);
  await assert.rejects(here.cancel(id), hasProblem('no_turn_running'));

  model.scripts.push({ words: ['Усе.'] });
  await here.retry(id).waitFor('message.completed');
  // The request omits the replaced answer.
  const [, ...said] = model.seen.at(-1)?.messages ?? [];
  assert.deepEqual(
    said.map(({ role }) => role),
    ['user'],
  );
  assert.deepEqual(await stored(id), [
    ['user', 'Розкажи', null],
    ['assistant', 'Усе.', null],
  ]);
  assert.equal((await here.retry(id).failure()).problem?.code, 'nothing_to_retry');
});

test('A retry without text keeps the earlier answer', async (t) => {
  const { here, id, message } = await cancelled(t);
  const before = [
    ['user', 'Розкажи', null],
    ['assistant', 'Початок', 'cancelled'],
  ];

  model.scripts.push({ answer: { status: 400, body: { error: { message: 'No such model' } } } });
  const failed = await here.retry(id).waitFor('error');
  assert.equal(failed.problem.code, 'model_failed');
  assert.deepEqual(failed.message, message);
  assert.deepEqual(await stored(id), before);

  const silence = gate();
  t.after(silence.open);
  model.scripts.push({ words: [silence.opened, 'Пізно'] });
  const asked = model.seen.length;
  const silent = here.retry(id);
  await until(() => model.seen.length > asked);
  await here.cancel(id);
  assert.deepEqual((await silent.waitFor('message.completed')).message, message);
  assert.deepEqual(await stored(id), before);

  model.scripts.push({ words: ['Усе.'] });
  const last = here.retry(id);
  assert.partialDeepStrictEqual(await last.waitFor('message.started'), { replaces: message.id });
  await last.waitFor('message.completed');
  assert.deepEqual(await stored(id), [
    ['user', 'Розкажи', null],
    ['assistant', 'Усе.', null],
  ]);
});

test('An answer of another process can be cancelled', async (t) => {
  const rest = gate();
  t.after(rest.open);
  model.scripts.push({ words: ['Там', rest.opened, ' далі'] });
  const there = await openChatClient(t, elsewhere);
  const id = await there.newSession();
  await there.say(id, 'Розкажи').waitForText('Там');
  const here = await openChatClient(t, olena);
  const { answer } = await here.open(id);
  await here.cancel(id);
  assert.partialDeepStrictEqual((await answer?.waitFor('message.completed'))?.message, {
    content: 'Там',
    status: 'cancelled',
  });
});

test('The error of a failed model is stored with the answer', async (t) => {
  const failure = { status: 400, body: { error: { message: 'No such model' } } };
  model.scripts.push({ answer: failure });
  const here = await openChatClient(t, olena);
  const id = await here.newSession();
  const { problem, message } = await here.say(id, 'Є хто?').waitFor('error');
  assert.equal(problem.code, 'model_failed');
  assert.partialDeepStrictEqual(message, { content: '', status: 'failed' });
  const { messages } = await here.open(id);
  assert.partialDeepStrictEqual(messages[1], { problem: { code: 'model_failed' } });
  await here.retry(id).waitFor('message.completed');
  assert.deepEqual(await stored(id), [
    ['user', 'Є хто?', null],
    ['assistant', 'Готово.', null],
  ]);
});

test('The answer of a dead process is cut, and every client gets its end', async (t) => {
  const rest = gate();
  t.after(rest.open);
  model.scripts.push({ words: ['Почав', rest.opened, ' і зник'] });
  const there = await openChatClient(t, elsewhere);
  const id = await there.newSession();
  const answer = there.say(id, 'Пиши');
  await answer.waitForText('Почав');
  const isStored = async () => {
    const { rows } = await sql`select from chat_turn_events
      where last_seq >= 2 and turn_id in (select id from chat_turns where session_id = ${id})`.execute(
      db,
    );
    return rows.length > 0;
  };
  await until(isStored);
  // One client has more events than the database, another one opens the session again.
  const here = await openRawClient(t, olena);
  const turnId = answer.events[0]?.turn_id;
  const known = { type: 'session.open', session_id: id, turn_id: turnId, after: 40 };
  assert.deepEqual((await here.client.ask(known))['turn'], { turn_id: turnId });
  const second = await openChatClient(t, olena);
  await until(async () => {
    // The process renews its lease.
    await sql`update chat_turns set lease_until = now() - interval '1 second'
      where session_id = ${id}`.execute(db);
    return (await second.open(id)).answer === undefined;
  });
  const { message } = await here.waitFor('message.completed');
  assert.partialDeepStrictEqual(message, { content: 'Почав', status: 'cut' });
  assert.deepEqual(await stored(id), [
    ['user', 'Пиши', null],
    ['assistant', 'Почав', 'cut'],
  ]);
  // The process presumed dead also publishes the end.
  rest.open();
  assert.partialDeepStrictEqual((await answer.waitFor('message.completed')).message, {
    status: 'cut',
  });
  // A returning client with more events gets the end as well.
  const late = await openRawClient(t, olena);
  assert.equal((await late.client.ask(known))['turn'], null);
  await late.waitFor('message.completed');
  assert.equal(late.streamed, '');
  await second.retry(id).waitFor('message.completed');
  assert.deepEqual(await stored(id), [
    ['user', 'Пиши', null],
    ['assistant', 'Готово.', null],
  ]);
});

test('Deleting a session ends its answer for every client', async (t) => {
  const here = await openChatClient(t, olena);
  const id = await here.newSession();
  const { turn_id, seq: after } = await here.say(id, 'Привіт').waitFor('message.completed');
  // This client has all events of the previous answer.
  const knowing = await openRawClient(t, olena);
  await knowing.client.ask({ type: 'session.open', session_id: id, turn_id, after });
  const rest = gate();
  t.after(rest.open);
  model.scripts.push({ words: ['Ще ', rest.opened, 'дещо'] });
  const answer = here.say(id, 'Розкажи');
  await answer.waitForText('Ще ');
  const deleted = await stage.app.inject({
    method: 'DELETE',
    url: `/sessions/${id}`,
    cookies: { svc_auth_session: sid },
  });
  assert.equal(deleted.statusCode, 200);
  rest.open();
  const { problem } = await answer.waitFor('error');
  assert.equal(problem.code, 'session_not_found');
  await knowing.waitFor('error');
  assert.equal(knowing.of('message.completed').length, 0, 'each event comes once');
});

const outcomes = (frames: { type: string; problem?: { code: string } }[]) =>
  frames.map(({ type, problem }) => problem?.code ?? type).toSorted();

/** Returns the numbers of the events of a turn, in order of arrival. */
const seqsOf = ({ client }: RawClient, turnId: unknown) =>
  client.frames.flatMap(({ seq, turn_id }) => (turn_id === turnId ? [seq] : []));

/** Returns consecutive numbers. */
const from = (first: number, count: number) => Array.from({ length: count }, (_, n) => first + n);

test('One of two concurrent messages on two processes begins a turn', async (t) => {
  const here = await openRawClient(t, olena);
  const there = await openRawClient(t, elsewhere);
  for (let round = 0; round < 5; round += 1) {
    const rest = gate();
    t.after(rest.open);
    model.scripts.push({ words: [rest.opened, 'Так.'] });
    const id = await here.newSession();
    const said = await Promise.all([here.say(id, 'Перше'), there.say(id, 'Друге')]);
    assert.deepEqual(outcomes(said), ['message.started', 'turn_running']);
    const [winner, text] = said[0].type === 'message.started' ? [here, 'Перше'] : [there, 'Друге'];
    const completed = winner.of('message.completed').length;
    rest.open();
    await winner.waitFor('message.completed', completed + 1);
    assert.deepEqual(await stored(id), [
      ['user', text, null],
      ['assistant', 'Так.', null],
    ]);
  }
});

test('A message that is sent again with its client id is stored and answered once', async (t) => {
  const here = await openRawClient(t, olena);
  const there = await openRawClient(t, elsewhere);
  const id = await here.newSession();
  const asked = model.seen.length;
  const named = { client_message_id: 'm-1' };
  const answers = await Promise.all([
    here.say(id, 'Один раз', named),
    there.say(id, 'Один раз', named),
  ]);
  assert.deepEqual(answers.map(({ type }) => type).toSorted(), [
    'message.repeated',
    'message.started',
  ]);
  await until(async () => (await stored(id)).length === 2);
  const repeated = await here.say(id, 'Один раз', named);
  assert.equal(repeated.type, 'message.repeated');
  const turnIds = [...answers, repeated].map((frame) => frame['turn_id']);
  assert.equal(new Set(turnIds).size, 1);
  const taken = await here.say(id, 'Інше', named);
  assert.equal(taken.problem?.code, 'message_name_taken');
  assert.deepEqual(await stored(id), [
    ['user', 'Один раз', null],
    ['assistant', 'Готово.', null],
  ]);
  assert.equal(model.seen.length, asked + 1);
});

test('A user has at most three running answers', async (t) => {
  const rest = gate();
  t.after(rest.open);
  const here = await openRawClient(t, olena);
  const there = await openRawClient(t, elsewhere);
  for (const rawClient of [here, there, here]) {
    model.scripts.push({ words: [rest.opened, 'Так.'] });
    assert.equal(
      (await rawClient.say(await rawClient.newSession(), 'Пиши')).type,
      'message.started',
    );
  }
  const fourth = await there.newSession();
  const { problem } = await there.say(fourth, 'І ще');
  assert.partialDeepStrictEqual(problem, { code: 'too_many_turns', status: 409 });
  assert.deepEqual(await stored(fourth), []);
  // The limit is for each user.
  const taras = await openRawClient(t, { url, sid: await stage.signIn('u-taras') });
  assert.equal((await taras.say(await taras.newSession(), 'Привіт')).type, 'message.started');

  rest.open();
  await here.waitFor('message.completed', 2);
  await there.waitFor('message.completed');
  assert.equal((await there.say(fourth, 'І ще')).type, 'message.started');
  await there.waitFor('message.completed', 2);
});

test('A client resumes after any event, among tools and in a retry', async (t) => {
  collector.listings = [listing(7)];
  const rest = gate();
  t.after(rest.open);
  const search = { tools: [{ name: 'search_listings', arguments: { query: 'дім' } }] };
  model.scripts.push(search, { words: ['Раз ', rest.opened, 'два.'] });
  const first = await openRawClient(t, olena);
  // A named session gets no title event.
  const created = await first.client.ask({ type: 'session.create', name: 'Дім' });
  const id = String(created['session_id']);
  await first.say(id, 'Шукай');
  await first.waitForText('Раз ');
  const turnId = first.of('message.started')[0]?.['turn_id'];
  const open = { type: 'session.open', session_id: id };

  // This client knows that the tool started.
  const second = await openRawClient(t, elsewhere);
  const began = first.of('tool.started')[0]?.['seq'];
  assert.equal(began, 2);
  await second.client.ask({ ...open, turn_id: turnId, after: began });
  await second.waitForText('Раз ');
  second.client.send({ type: 'message.cancel', session_id: id });
  await second.waitFor('message.completed');
  assert.equal(second.of('tool.started').length, 0);
  assert.equal(second.of('tool.finished').length, 1);
  assert.deepEqual(seqsOf(second, turnId), from(3, seqsOf(second, turnId).length));

  const again = gate();
  t.after(again.open);
  model.scripts.push({ words: ['Знову ', again.opened, 'так.'] });
  second.client.send({ type: 'message.retry', session_id: id });
  const { turn_id: retried, replaces } = await second.waitFor('message.started');
  assert.equal(typeof replaces, 'string');
  await second.waitForText('Знову ');
  // One client knows a part of the retry, another one the replaced answer.
  const third = await openRawClient(t, olena);
  await third.client.ask({ ...open, turn_id: retried, after: 1 });
  const fourth = await openRawClient(t, olena);
  await fourth.client.ask({ ...open, turn_id: turnId, after: 3 });
  again.open();
  for (const rawClient of [third, fourth]) {
    await rawClient.waitFor('message.completed');
    assert.equal(rawClient.streamed, 'Знову так.');
    assert.deepEqual(seqsOf(rawClient, turnId), []);
  }
  await second.waitFor('message.completed', 2);
  const count = seqsOf(second, retried).length;
  assert.deepEqual(seqsOf(third, retried), from(2, count - 1));
  assert.deepEqual(seqsOf(fourth, retried), from(1, count));
  assert.deepEqual(await stored(id), [
    ['user', 'Шукай', null],
    ['assistant', 'Знову так.', null],
  ]);
});

test('A stopping process serves only liveness and metrics until its last turn ends', async (t) => {
  const stopping = await stage.instance();
  const rest = gate();
  t.after(rest.open);
  model.scripts.push({ words: ['Ще ', rest.opened, 'дещо'] });
  const stoppingUrl = await listen(stopping);
  const here = await openChatClient(t, { url: stoppingUrl, sid });
  const id = await here.newSession();
  const answer = here.say(id, 'Розкажи');
  await answer.waitForText('Ще ');
  const statusOf = async (path: string) =>
    (await fetch(stoppingUrl + path, { headers: { cookie: `svc_auth_session=${sid}` } })).status;
  assert.deepEqual([await statusOf('/health/ready'), await statusOf('/sessions')], [200, 200]);

  const closing = closeServer(stopping, 60_000);
  await until(() => here.statuses.some((status) => status.type === 'waiting'));
  assert.deepEqual(
    await Promise.all(['/health/ready', '/health', '/sessions'].map(statusOf)),
    [503, 503, 503],
  );
  assert.deepEqual([await statusOf('/health/live'), await statusOf('/metrics')], [200, 200]);
  rest.open();
  await closing;
  assert.deepEqual((await stage.stored(id)).at(-1), ['assistant', 'Ще дещо', null]);
});

/** Returns the status of the turn of a session. */
const statusOf = async (sessionId: string): Promise<string | undefined> => {
  const turn = await db
    .selectFrom('chat_turns')
    .select('status')
    .where('session_id', '=', sessionId)
    .executeTakeFirst();
  return turn?.status;
};

test('A starting process cuts the turns without a process, and their clients get the end', async (t) => {
  const rest = gate();
  t.after(rest.open);
  const here = await openChatClient(t, olena);
  const ids: string[] = [];
  const answers: AnswerReader[] = [];
  for (const text of ['Перше', 'Друге']) {
    model.scripts.push({ words: [`${text} почав`, rest.opened, ' і скінчив'] });
    const id = await here.newSession();
    ids.push(id);
    const answer = here.say(id, text);
    answers.push(answer);
    await answer.waitForText(`${text} почав`);
  }
  const [fresh = '', silent = ''] = ids;
  await until(async () => {
    const { rows } = await sql`select distinct turn_id from chat_turn_events
      join chat_turns on chat_turns.id = turn_id
      where last_seq >= 2 and session_id = any(${ids}::text[])`.execute(db);
    return rows.length === 2;
  });
  await stage.another();
  await until(async () => {
    // The process renews its lease.
    await sql`update chat_turns set lease_until = now() - interval '1 second'
      where session_id = ${silent}`.execute(db);
    return (await statusOf(silent)) === 'cut';
  });
  const completed = await answers[1]?.waitFor('message.completed');
  assert.partialDeepStrictEqual(completed?.message, { content: 'Друге почав', status: 'cut' });
  if (engine === 'postgres') {
    // The lease of this turn is valid.
    assert.equal(await statusOf(fresh), 'running');
    rest.open();
    await until(async () => (await statusOf(fresh)) === 'completed');
    return;
  }
  // No other process can have the embedded database open.
  await until(async () => (await statusOf(fresh)) === 'cut');
  assert.deepEqual(await stored(fresh), [
    ['user', 'Перше', null],
    ['assistant', 'Перше почав', 'cut'],
  ]);
});

/** Waits for the error of an answer, whose text must be stored once. */
async function failureOf(client: RawClient, sessionId: string): Promise<string | undefined> {
  const { problem, message } = await client.waitFor('error');
  assert.partialDeepStrictEqual(message, {
    content: client.streamed,
    status: 'failed',
    problem: { code: problem?.code },
  });
  assert.deepEqual((await stored(sessionId)).slice(1), [['assistant', client.streamed, 'failed']]);
  assert.equal(client.of('message.completed').length, 0);
  return problem?.code;
}

const titlesAndStatuses = async (sessionId: string) =>
  (await stage.steps(sessionId)).map(({ title, status }) => [title, status]);

test('An answer ends at its maximum tokens, and can be retried', async (t) => {
  model.scripts.push({ words: ['Раз ', 'два ', 'три ', 'чотири ', 'пʼять ', 'шість ', 'сім.'] });
  const client = await openRawClient(t, short);
  const id = await client.newSession();
  await client.say(id, 'Рахуй');
  assert.equal(await failureOf(client, id), 'answer_too_long');
  assert.equal(client.streamed, 'Раз два три чотири пʼять ');

  model.scripts.push({ words: ['Раз', ', два.'] });
  await client.client.ask({ type: 'message.retry', session_id: id });
  await client.waitFor('message.completed');
  assert.deepEqual((await stored(id)).slice(1), [['assistant', 'Раз, два.', null]]);
});

test('An answer ends at its maximum time, during the model or a tool', async (t) => {
  const hurried = await stage.another({ ANSWER_MAX_SECONDS: '4' });
  const rest = gate();
  t.after(rest.open);
  const waiting = [
    { script: { words: ['Ще ', rest.opened, 'трохи'] }, said: 'Ще ', steps: [] },
    {
      script: { tools: [{ name: 'get_listing', arguments: { listing_id: 1 } }] },
      said: '',
      steps: [['Reading listing #1', 'failed']],
    },
  ];
  collector.failure = 'silent';
  t.after(() => {
    collector.failure = undefined;
  });
  const ends: (() => Promise<void>)[] = [];
  for (const { script, said, steps } of waiting) {
    model.scripts.push(script);
    const client = await openRawClient(t, { url: hurried, sid });
    const id = await client.newSession();
    const asked = model.seen.length;
    await client.say(id, 'Розкажи');
    await until(() => model.seen.length > asked);
    ends.push(async () => {
      assert.equal(await failureOf(client, id), 'answer_too_slow');
      assert.deepEqual([client.streamed, await titlesAndStatuses(id)], [said, steps]);
    });
  }
  for (const end of ends) await end();
});

test('The smallest window has room for tools, and rejects a question that is too long', async (t) => {
  const small = await stage.another({ MODEL_CONTEXT_TOKENS: '2048' });
  collector.listings = Array.from({ length: 5 }, (_, nth) => listing(nth + 1));
  const client = await openRawClient(t, { url: small, sid });
  const id = await client.newSession();
  const asked = model.seen.length;
  model.scripts.push(
    { tools: [{ name: 'search_listings', arguments: { query: 'двокімнатна' } }] },
    { words: ['Є одна.'] },
  );
  await client.say(id, 'Двокімнатна у Львові?');
  await client.waitFor('message.completed');
  assert.equal(client.streamed, 'Є одна.');
  const output = String(model.seen.at(-1)?.messages.at(-1)?.content);
  assert.match(output, /^\{"total":.*"listing_id":1,.*… \(cut off: \d+ bytes\)$/);

  await client.say(id, 'слово '.repeat(500));
  assert.equal((await client.waitFor('error')).problem?.code, 'message_too_long');
  await client.say(id, 'Скільки коштує?');
  await client.waitFor('message.completed', 2);
  // Instructions and tools alone are more than 1,500 tokens.
  for (const { max_tokens } of model.seen.slice(asked) as { max_tokens?: number }[]) {
    assert.ok(max_tokens !== undefined && max_tokens > 100 && max_tokens < 548, String(max_tokens));
  }
});

const log = createLogger({ level: 'silent', service: 'test' });

test('A shutdown rejects messages, and cuts an answer that takes too long', async (t) => {
  const begun = gate();
  async function* streamChat({ signal }: ChatRequest): AsyncGenerator<ChatPart, void, undefined> {
    yield { type: 'text', text: 'Почав' };
    begun.open();
    await once(signal ?? t.signal, 'abort');
    signal?.throwIfAborted();
  }
  const chat = createChat({
    db,
    events: await openEventLog({ db, listen: stage.listen, log }),
    model: { streamChat },
    services: {
      memory: {
        listLatestFacts: () => Promise.resolve([]),
        readSummary: () => Promise.resolve(''),
      },
    } as never,
    contextTokens: 8192,
    profiles: await openFolder(SHIPPED_PROFILES),
    limits: { ...FIXED_AGENT_LIMITS, outputTokens: 100, ms: 600_000 },
    metrics: createChatMetrics(new Registry()),
    log,
    shutdownMs: 10,
  });
  const user = userOf('u-olena', ['svc.tools.use']);
  const { id: sessionId } = await db
    .insertInto('conversation_sessions')
    .values({ user_id: user.id, profile_id: 'default', name: 'Пошук' })
    .returning('id')
    .executeTakeFirstOrThrow();
  const sender = {
    requestId: 'r',
    onBegin: () => undefined,
    hold: () => ({ current: () => Promise.resolve(user), release: () => undefined }),
  };
  await chat.send(user, { sessionId, text: 'Пиши' }, sender);
  await begun.opened;
  const closed = chat.close();
  await assert.rejects(chat.send(user, { sessionId, text: 'Ще' }, sender), { code: 'unavailable' });
  await closed;
  assert.deepEqual(await stored(sessionId), [
    ['user', 'Пиши', null],
    ['assistant', 'Почав', 'cut'],
  ]);
});

test('A resumed listener sends the events and the rename of its pause', async (t) => {
  const events = await openEventLog({ db, listen: stage.listen, log });
  t.after(() => events.close());
  // The poll reaches a session last if others wait longer.
  const waiting = { onAppend: () => undefined, onNotify: () => undefined };
  for (let index = 0; index < 100; index += 1) events.subscribe(`session-${index}`, waiting);
  const userId = 'u-listener';
  const { id: sessionId } = await db
    .insertInto('conversation_sessions')
    .values({ user_id: userId, name: 'Дім' })
    .returning('id')
    .executeTakeFirstOrThrow();
  const begun = await beginTurn(db, { userId, sessionId }, { text: 'Рахуй' });
  assert.ok('key' in begun);
  const turn = events.start(begun.key);
  const sent: SessionFrame[] = [];
  const send = (frame: SessionFrame) => void sent.push(frame);
  const listener = new Listener({ events, sessionId, send, requestId: 'r', log });
  t.after(() => listener.close());
  listener.resume({ ...begun.key, seq: 0, hasEnded: false });
  turn.append({ type: 'message.delta', text: 'Раз ' });
  await until(() => sent.length === 1);
  listener.pause();
  turn.append({ type: 'message.delta', text: 'два' });
  await db
    .updateTable('conversation_sessions')
    .set({ name: 'Двір' })
    .where('id', '=', sessionId)
    .execute();
  listener.resume();
  await until(() => sent.length === 3);
  assert.deepEqual(
    sent.map(({ type }) => type),
    ['message.delta', 'message.delta', 'session.updated'],
  );
});
