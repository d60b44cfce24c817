import assert from 'node:assert/strict';
import { test } from 'node:test';
import { sql } from 'kysely';
import { insertEvents } from '../../src/conversations/event-log.ts';
import { insertMessage } from '../../src/conversations/messages.ts';
import { endTurn, insertEndedTurn, insertTurn } from '../../src/conversations/turns.ts';
import { presentMessage } from '../../src/conversations/schemas.ts';
import { gate } from '../helpers/scripted-model.ts';
import { listing } from '../helpers/scripted-collector.ts';
import { until } from '../helpers/until.ts';
import { openStage, type Talker, talk } from './stage.ts';

const stage = await openStage();
const { collector, db, model, stored, url } = stage;
const sid = await stage.signIn('u-olena');
const olena = { url, sid };
const elsewhere = { url: await stage.another(), sid };

const outcomes = (frames: { type: string; problem?: { code: string } }[]) =>
  frames.map(({ type, problem }) => problem?.code ?? type).toSorted();

/** The numbers of the events of a turn, in the order in which they came. */
const seqsOf = ({ client }: Talker, turnId: unknown) =>
  client.frames.flatMap(({ seq, turn_id }) => (turn_id === turnId ? [seq] : []));

/** Numbers from one on. */
const from = (first: number, count: number) => Array.from({ length: count }, (_, n) => first + n);

test('of two messages in the same moment on two processes one is answered, and the other refused', async (t) => {
  const here = await talk(t, olena);
  const there = await talk(t, elsewhere);
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

test('three sessions of a user are answered at once: a fourth message is refused, and taken later', async (t) => {
  const rest = gate();
  t.after(rest.open);
  const here = await talk(t, olena);
  const there = await talk(t, elsewhere);
  for (const talker of [here, there, here]) {
    model.scripts.push({ words: [rest.opened, 'Так.'] });
    assert.equal((await talker.say(await talker.newSession(), 'Пиши')).type, 'message.started');
  }
  const fourth = await there.newSession();
  const { problem } = await there.say(fourth, 'І ще');
  assert.partialDeepStrictEqual(problem, { code: 'too_many_turns', status: 409 });
  assert.deepEqual(await stored(fourth), []);
  // They are each user's own.
  const taras = await talk(t, { url, sid: await stage.signIn('u-taras') });
  assert.equal((await taras.say(await taras.newSession(), 'Привіт')).type, 'message.started');

  rest.open();
  await here.waitFor('message.completed', 2);
  await there.waitFor('message.completed');
  assert.equal((await there.say(fourth, 'І ще')).type, 'message.started');
  await there.waitFor('message.completed', 2);
});

test('what other processes did in a session is told before a turn that begins here, though nobody told of it', async (t) => {
  const here = await talk(t, olena);
  const id = await here.newSession();
  const rest = gate();
  t.after(rest.open);
  const there = await talk(t, elsewhere);
  await there.client.ask({ type: 'session.open', session_id: id });
  // A turn of another process ends, and then a digest arrives.
  const owned = { sessionId: id, userId: 'u-olena' };
  await db.transaction().execute(async (trx) => {
    const question = { sessionId: id, turnId: null, role: 'user' as const, content: 'Перше' };
    const { id: questionId } = await insertMessage(trx, question);
    const turn = await insertTurn(trx, owned, questionId);
    const answer = {
      sessionId: id,
      turnId: turn.turnId,
      role: 'assistant' as const,
      content: 'Є.',
    };
    const message = presentMessage(await insertMessage(trx, answer));
    await endTurn(trx, { ...turn, status: 'completed' });
    const end = { type: 'message.completed' as const, message, seq: 1 };
    await insertEvents(trx, turn, [end]);
    const own = await insertEndedTurn(trx, owned);
    const arrived = { type: 'message.arrived' as const, message, seq: 1 };
    await insertEvents(trx, own, [arrived]);
  });
  await here.say(id, 'Друге');
  for (const one of [here, there]) {
    await one.waitFor('message.completed', 2);
    const types = one.client.frames.filter((frame) => frame['turn_id'] !== undefined);
    assert.deepEqual(
      types.map(({ type }) => type).filter((type) => type !== 'message.delta'),
      ['message.completed', 'message.arrived', 'message.started', 'message.completed'],
    );
  }
});

const delta = (seq: number, text: string) => ({ type: 'message.delta' as const, text, seq });

test('what its process stored twice comes once to who connects again, and into the answer that is cut', async (t) => {
  const here = await talk(t, olena);
  const id = await here.newSession();
  const twice = [delta(1, 'Раз '), delta(2, 'два ')];
  const turnId = await db.transaction().execute(async (trx) => {
    const question = { sessionId: id, turnId: null, role: 'user' as const, content: 'Рахуй' };
    const { id: questionId } = await insertMessage(trx, question);
    const turn = await insertTurn(trx, { sessionId: id, userId: 'u-olena' }, questionId);
    await insertEvents(trx, turn, twice);
    await insertEvents(trx, turn, [...twice, delta(3, 'три')]);
    return turn.turnId;
  });
  const open = { type: 'session.open', session_id: id, turn_id: turnId };
  for (const [after, text] of [
    [0, 'Раз два три'],
    [1, 'два три'],
    [2, 'три'],
  ] as const) {
    const there = await talk(t, elsewhere);
    await there.client.ask({ ...open, after });
    await there.hear('три');
    assert.equal(there.streamed, text);
  }
  await sql`update chat_turns set lease_until = now() - interval '1 second' where id = ${turnId}`.execute(
    db,
  );
  await here.client.ask(open);
  assert.deepEqual(await stored(id), [
    ['user', 'Рахуй', null],
    ['assistant', 'Раз два три', 'cut'],
  ]);
});

// The places that our own client names are those that it knows; here a client names any.
test('who comes back at another process goes on after the event that they know, among tools and in a retry', async (t) => {
  collector.listings = [listing(7)];
  const rest = gate();
  t.after(rest.open);
  const search = { tools: [{ name: 'search_listings', arguments: { query: 'дім' } }] };
  model.scripts.push(search, { words: ['Раз ', rest.opened, 'два.'] });
  const first = await talk(t, olena);
  // With a name, so that none comes beside the answers.
  const created = await first.client.ask({ type: 'session.create', name: 'Дім' });
  const id = String(created['session_id']);
  await first.say(id, 'Шукай');
  await first.hear('Раз ');
  const turnId = first.of('message.started')[0]?.['turn_id'];
  const open = { type: 'session.open', session_id: id };

  // It knows that the tool began, and not how that ended.
  const second = await talk(t, elsewhere);
  const began = first.of('tool.started')[0]?.['seq'];
  assert.equal(began, 2);
  await second.client.ask({ ...open, turn_id: turnId, after: began });
  await second.hear('Раз ');
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
  await second.hear('Знову ');
  // One that knows a part of the retry, and one that knows the answer which it takes the place of.
  const third = await talk(t, olena);
  await third.client.ask({ ...open, turn_id: retried, after: 1 });
  const fourth = await talk(t, olena);
  await fourth.client.ask({ ...open, turn_id: turnId, after: 3 });
  again.open();
  for (const talker of [third, fourth]) {
    await talker.waitFor('message.completed');
    assert.equal(talker.streamed, 'Знову так.');
    assert.deepEqual(seqsOf(talker, turnId), []);
  }
  const count = seqsOf(second, retried).length;
  assert.deepEqual(seqsOf(third, retried), from(2, count - 1));
  assert.deepEqual(seqsOf(fourth, retried), from(1, count));
  assert.deepEqual(await stored(id), [
    ['user', 'Шукай', null],
    ['assistant', 'Знову так.', null],
  ]);
});
