import assert from 'node:assert/strict';
import type { ServerResponse } from 'node:http';
import { test, type TestContext } from 'node:test';
import { chunk, streamed } from '@oselya/model/testing';
import { sql } from 'kysely';
import { gate } from '../helpers/scripted-model.ts';
import { until } from '../helpers/until.ts';
import { converse, openStage, refusal, talk, wayTo } from './stage.ts';

const stage = await openStage();
const { db, model, stored, url } = stage;
const other = await stage.another();
const sid = await stage.signIn('u-olena');
const olena = { url, sid };
const elsewhere = { url: other, sid };

test('who loses the connection in the middle of an answer has all of it once, whichever process they come back to', async (t) => {
  const [away, rest, end] = [gate(), gate(), gate()];
  t.after(() => {
    for (const { open } of [away, rest, end]) open();
  });
  const script = ['Раз ', away.opened, 'два ', rest.opened, 'три ', end.opened, 'чотири.'];
  model.scripts.push({ words: script });
  const way = await wayTo(t, url);
  const person = await converse(t, { url: way.url, sid });
  const id = await person.newSession();
  const answer = person.say(id, 'Рахуй');
  await answer.hear('Раз ');
  const witness = await converse(t, olena);
  const watched = (await witness.open(id)).answer;
  assert.ok(watched);
  for (const [{ open }, said, back] of [
    [away, 'два ', other],
    [rest, 'три ', url],
  ] as const) {
    await way.away();
    open();
    await watched.hear(said);
    assert.ok(!answer.streamed.includes(said));
    way.leadTo(back);
    await way.back();
    await answer.hear(said);
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

// Our own client names no such places.
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
  t.after(rest.open);
  model.scripts.push({ words: ['Перше. ', rest.opened, 'Друге. ', 'Третє.'] });
  const here = await converse(t, olena);
  const id = await here.newSession();
  await here.say(id, 'Кажи').hear('Перше. ');
  const there = await converse(t, elsewhere);
  const { answer } = await there.open(id);
  assert.ok(answer);
  await answer.hear('Перше. ');
  rest.open();
  const { seq } = await answer.waitFor('message.completed');
  assert.equal(answer.streamed, 'Перше. Друге. Третє.');
  assert.deepEqual(
    answer.events.map((event) => event.seq),
    Array.from({ length: seq }, (_, index) => index + 1),
  );
});

/** A session whose answer was cancelled after its first word, and that answer. */
async function cancelled(t: TestContext) {
  const rest = gate();
  t.after(rest.open);
  model.scripts.push({ words: ['Початок', rest.opened, ' і кінець'] });
  const here = await converse(t, olena);
  const id = await here.newSession();
  const answer = here.say(id, 'Розкажи');
  await answer.hear('Початок');
  await here.cancel(id);
  const { message } = await answer.waitFor('message.completed');
  return { here, id, message };
}

test('what there is of a cancelled answer is kept, and it can be tried again', async (t) => {
  const { here, id, message } = await cancelled(t);
  assert.partialDeepStrictEqual(message, { content: 'Початок', status: 'cancelled' });
  assert.deepEqual(await stored(id), [
    ['user', 'Розкажи', null],
    ['assistant', 'Початок', 'cancelled'],
  ]);
  await assert.rejects(here.cancel(id), refusal('no_turn_running'));

  model.scripts.push({ words: ['Усе.'] });
  await here.retry(id).waitFor('message.completed');
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
  assert.equal((await here.retry(id).failure()).problem?.code, 'nothing_to_retry');
});

test('an answer that says something does not go for one that ends without a word', async (t) => {
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

test('an answer that another process writes can be cancelled here', async (t) => {
  const rest = gate();
  t.after(rest.open);
  model.scripts.push({ words: ['Там', rest.opened, ' далі'] });
  const there = await converse(t, elsewhere);
  const id = await there.newSession();
  await there.say(id, 'Розкажи').hear('Там');
  const here = await converse(t, olena);
  const { answer } = await here.open(id);
  await here.cancel(id);
  assert.partialDeepStrictEqual((await answer?.waitFor('message.completed'))?.message, {
    content: 'Там',
    status: 'cancelled',
  });
});

test('a model that fails leaves the message, and says why in the session', async (t) => {
  const failure = { status: 400, body: { error: { message: 'No such model' } } };
  model.scripts.push({ answer: failure });
  const here = await converse(t, olena);
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

test('a model server that goes away in the middle of an answer leaves what was said, and says so', async (t) => {
  const away = gate();
  t.after(away.open);
  const goAway = (response: ServerResponse) => away.opened.then(() => void response.destroy());
  model.scripts.push({ answer: streamed([chunk({ content: 'Почав ' }), goAway]) });
  const here = await converse(t, olena);
  const id = await here.newSession();
  const answer = here.say(id, 'Розкажи');
  await answer.hear('Почав ');
  away.open();
  const { problem } = await answer.waitFor('error');
  assert.equal(problem.code, 'model_unavailable');
  assert.deepEqual(await stored(id), [
    ['user', 'Розкажи', null],
    ['assistant', 'Почав ', 'failed'],
  ]);
});

test('an answer whose process has gone is cut off where it was, and who listens is told', async (t) => {
  const rest = gate();
  t.after(rest.open);
  model.scripts.push({ words: ['Почав', rest.opened, ' і зник'] });
  const there = await converse(t, elsewhere);
  const id = await there.newSession();
  const answer = there.say(id, 'Пиши');
  await answer.hear('Почав');
  const isStored = async () => {
    const { rows } = await sql`select from chat_turn_events
      where last_seq >= 2 and turn_id in (select id from chat_turns where session_id = ${id})`.execute(
      db,
    );
    return rows.length > 0;
  };
  await until(isStored);
  // One that had more of it than was stored, as no client of ours says by itself, and one that opens it anew.
  const here = await talk(t, olena);
  const turnId = answer.events[0]?.turn_id;
  const known = { type: 'session.open', session_id: id, turn_id: turnId, after: 40 };
  assert.deepEqual((await here.client.ask(known))['turn'], { turn_id: turnId });
  const second = await converse(t, olena);
  await until(async () => {
    // Its process says again and again that it runs it.
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
  // The process that was taken for dead tells its own, too, and goes on with nothing.
  rest.open();
  assert.partialDeepStrictEqual((await answer.waitFor('message.completed')).message, {
    status: 'cut',
  });
  // Nor is it kept from one that had more, and comes back only now.
  const late = await talk(t, olena);
  assert.equal((await late.client.ask(known))['turn'], null);
  await late.waitFor('message.completed');
  assert.equal(late.streamed, '');
  await second.retry(id).waitFor('message.completed');
  assert.deepEqual(await stored(id), [
    ['user', 'Пиши', null],
    ['assistant', 'Готово.', null],
  ]);
});

test('a session that is deleted in the middle of an answer ends it, and who listens is told', async (t) => {
  const here = await converse(t, olena);
  const id = await here.newSession();
  const { turn_id, seq: after } = await here.say(id, 'Привіт').waitFor('message.completed');
  // One that knows the answer before to its end.
  const knowing = await talk(t, olena);
  await knowing.client.ask({ type: 'session.open', session_id: id, turn_id, after });
  const rest = gate();
  t.after(rest.open);
  model.scripts.push({ words: ['Ще ', rest.opened, 'дещо'] });
  const answer = here.say(id, 'Розкажи');
  await answer.hear('Ще ');
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
