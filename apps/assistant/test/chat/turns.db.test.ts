import assert from 'node:assert/strict';
import type { ServerResponse } from 'node:http';
import { test } from 'node:test';
import { chunk, streamed } from '@oselya/model/testing';
import { sql } from 'kysely';
import { gate } from '../helpers/scripted-model.ts';
import { until } from '../helpers/until.ts';
import { openStage, talk } from './stage.ts';

const stage = await openStage();
const { db, model, stored, url } = stage;
const other = await stage.another();
const sid = await stage.signIn('u-olena');
const olena = { url, sid };
const elsewhere = { url: other, sid };

test('a client that connects again gets what it has not had, and the rest as it comes', async (t) => {
  const rest = gate();
  model.scripts.push({ words: ['Раз ', 'два ', rest.opened, 'три.'] });
  const first = await talk(t, olena);
  const id = await first.newSession();
  await first.say(id, 'Рахуй');
  await first.hear('два ');
  const turnId = first.of('message.started')[0]?.['turn_id'];
  const [one] = first.of('message.delta');
  first.client.socket.terminate();

  const second = await talk(t, olena);
  const opened = await second.client.ask({
    type: 'session.open',
    session_id: id,
    turn_id: turnId,
    after: one?.['seq'],
  });
  assert.deepEqual(opened['turn'], { turn_id: turnId });
  rest.open();
  await second.waitFor('message.completed');
  assert.equal(second.streamed, 'два три.');
  assert.deepEqual(await stored(id), [
    ['user', 'Рахуй', null],
    ['assistant', 'Раз два три.', null],
  ]);
});

test('a place that no answer can have is refused, and one that it has not is its end', async (t) => {
  const here = await talk(t, olena);
  const id = await here.newSession();
  await here.say(id, 'Так?');
  await here.waitFor('message.completed');
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

test('another process tells what is being answered here, in order and once', async (t) => {
  const rest = gate();
  model.scripts.push({ words: ['Перше. ', rest.opened, 'Друге. ', 'Третє.'] });
  const here = await talk(t, olena);
  const id = await here.newSession();
  await here.say(id, 'Кажи');
  await here.hear('Перше. ');
  const there = await talk(t, elsewhere);
  await there.client.ask({ type: 'session.open', session_id: id });
  await there.hear('Перше. ');
  rest.open();
  await there.waitFor('message.completed');
  assert.equal(there.streamed, 'Перше. Друге. Третє.');
  const seqs = there.client.frames.flatMap(({ seq }) => (typeof seq === 'number' ? [seq] : []));
  assert.deepEqual(
    seqs,
    seqs.map((_, index) => index + 1),
  );
});

test('one answer at a time: a second message is refused, here and elsewhere', async (t) => {
  const rest = gate();
  t.after(rest.open);
  model.scripts.push({ words: ['Пишу ', rest.opened, 'далі.'] });
  const here = await talk(t, olena);
  const there = await talk(t, elsewhere);
  const id = await here.newSession();
  await here.say(id, 'Пиши');
  assert.equal((await here.say(id, 'Ще')).problem?.code, 'turn_running');
  assert.equal((await there.say(id, 'Ще')).problem?.code, 'turn_running');
  rest.open();
  await here.waitFor('message.completed');
  assert.deepEqual(await stored(id), [
    ['user', 'Пиши', null],
    ['assistant', 'Пишу далі.', null],
  ]);
});

test('a message that is sent again under its name is stored and answered once', async (t) => {
  const here = await talk(t, olena);
  const there = await talk(t, elsewhere);
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
  assert.equal((await here.say(id, 'Один раз', named)).type, 'message.repeated');
  assert.deepEqual(await stored(id), [
    ['user', 'Один раз', null],
    ['assistant', 'Готово.', null],
  ]);
  assert.equal(model.seen.length, asked + 1);
});

test('what there is of a cancelled answer is kept, and it can be tried again', async (t) => {
  const rest = gate();
  t.after(rest.open);
  model.scripts.push({ words: ['Початок', rest.opened, ' і кінець'] });
  const here = await talk(t, olena);
  const id = await here.newSession();
  await here.say(id, 'Розкажи');
  await here.hear('Початок');
  here.client.send({ type: 'message.cancel', session_id: id });
  const { message } = await here.waitFor('message.completed');
  assert.partialDeepStrictEqual(message, { content: 'Початок', status: 'cancelled' });
  assert.deepEqual(await stored(id), [
    ['user', 'Розкажи', null],
    ['assistant', 'Початок', 'cancelled'],
  ]);
  const cancelled = await here.client.ask({ type: 'message.cancel', session_id: id });
  assert.equal(cancelled.problem?.code, 'no_turn_running');

  model.scripts.push({ words: ['Усе.'] });
  await here.client.ask({ type: 'message.retry', session_id: id });
  await here.waitFor('message.completed', 2);
  // What is to be replaced is no part of what the model is asked.
  const [, ...said] = model.seen.at(-1)?.messages ?? [];
  assert.deepEqual(
    said.map(({ role }) => role),
    ['user'],
  );
  assert.deepEqual(await stored(id), [
    ['user', 'Розкажи', null],
    ['assistant', 'Усе.', null],
  ]);
  const again = await here.client.ask({ type: 'message.retry', session_id: id });
  assert.equal(again.problem?.code, 'nothing_to_retry');
});

test('an answer that another process writes can be cancelled here', async (t) => {
  const rest = gate();
  t.after(rest.open);
  model.scripts.push({ words: ['Там', rest.opened, ' далі'] });
  const there = await talk(t, elsewhere);
  const id = await there.newSession();
  await there.say(id, 'Розкажи');
  await there.hear('Там');
  const here = await talk(t, olena);
  await here.client.ask({ type: 'session.open', session_id: id });
  here.client.send({ type: 'message.cancel', session_id: id });
  assert.partialDeepStrictEqual((await here.waitFor('message.completed'))['message'], {
    content: 'Там',
    status: 'cancelled',
  });
});

test('a model that fails leaves the message, and says why in the session', async (t) => {
  const failure = { status: 400, body: { error: { message: 'No such model' } } };
  model.scripts.push({ answer: failure });
  const here = await talk(t, olena);
  const id = await here.newSession();
  await here.say(id, 'Є хто?');
  const { problem, message } = await here.waitFor('error');
  assert.equal(problem?.code, 'model_failed');
  assert.partialDeepStrictEqual(message, { content: '', status: 'failed' });
  const opened = await here.client.ask({ type: 'session.open', session_id: id });
  const messages = opened['messages'] as { status?: string; problem?: { code: string } }[];
  assert.equal(messages[1]?.problem?.code, 'model_failed');
  await here.client.ask({ type: 'message.retry', session_id: id });
  await here.waitFor('message.completed');
  assert.deepEqual(await stored(id), [
    ['user', 'Є хто?', null],
    ['assistant', 'Готово.', null],
  ]);
});

test('a model server that goes away in the middle of an answer leaves what was said, and says so', async (t) => {
  const away = gate();
  t.after(away.open);
  const goAway = (response: ServerResponse) => away.opened.then(() => void response.destroy());
  model.scripts.push({ answer: streamed([chunk({ content: 'Почав ' }), goAway]) });
  const here = await talk(t, olena);
  const id = await here.newSession();
  await here.say(id, 'Розкажи');
  await here.hear('Почав ');
  away.open();
  const { problem } = await here.waitFor('error');
  assert.equal(problem?.code, 'model_unavailable');
  assert.deepEqual(await stored(id), [
    ['user', 'Розкажи', null],
    ['assistant', 'Почав ', 'failed'],
  ]);
});

test('an answer whose process has gone is cut off where it was, and who listens is told', async (t) => {
  const rest = gate();
  t.after(rest.open);
  model.scripts.push({ words: ['Почав', rest.opened, ' і зник'] });
  const there = await talk(t, elsewhere);
  const id = await there.newSession();
  await there.say(id, 'Пиши');
  await there.hear('Почав');
  const isStored = async () => {
    const { rows } = await sql`select from chat_turn_events
      where last_seq >= 2 and turn_id in (select id from chat_turns where session_id = ${id})`.execute(
      db,
    );
    return rows.length > 0;
  };
  await until(isStored);
  // One that had more of it than was stored, and one that opens it anew.
  const here = await talk(t, olena);
  const turnId = there.of('message.started')[0]?.['turn_id'];
  const known = { type: 'session.open', session_id: id, turn_id: turnId, after: 40 };
  assert.deepEqual((await here.client.ask(known))['turn'], { turn_id: turnId });
  await sql`update chat_turns set lease_until = now() - interval '1 second'
    where session_id = ${id}`.execute(db);

  const second = await talk(t, olena);
  const opened = await second.client.ask({ type: 'session.open', session_id: id });
  assert.equal(opened['turn'], null);
  const { message } = await here.waitFor('message.completed');
  assert.partialDeepStrictEqual(message, { content: 'Почав', status: 'cut' });
  assert.deepEqual(await stored(id), [
    ['user', 'Пиши', null],
    ['assistant', 'Почав', 'cut'],
  ]);
  // The process that was taken for dead tells its own, too, and goes on with nothing.
  rest.open();
  assert.partialDeepStrictEqual((await there.waitFor('message.completed'))['message'], {
    status: 'cut',
  });
  await second.client.ask({ type: 'message.retry', session_id: id });
  await second.waitFor('message.completed');
  assert.deepEqual(await stored(id), [
    ['user', 'Пиши', null],
    ['assistant', 'Готово.', null],
  ]);
});

test('a session that is deleted in the middle of an answer ends it, and who listens is told', async (t) => {
  const rest = gate();
  t.after(rest.open);
  model.scripts.push({ words: ['Ще ', rest.opened, 'дещо'] });
  const here = await talk(t, olena);
  const id = await here.newSession();
  await here.say(id, 'Розкажи');
  await here.hear('Ще ');
  const deleted = await stage.app.inject({
    method: 'DELETE',
    url: `/sessions/${id}`,
    cookies: { svc_auth_session: sid },
  });
  assert.equal(deleted.statusCode, 200);
  rest.open();
  const { problem } = await here.waitFor('error');
  assert.equal(problem?.code, 'session_not_found');
});
