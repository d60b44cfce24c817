import assert from 'node:assert/strict';
import { test } from 'node:test';
import { startModelServer } from '@oselya/model/testing';
import { gate } from '../helpers/scripted-model.ts';
import { listing } from '../helpers/scripted-collector.ts';
import { until } from '../helpers/until.ts';
import { openStage, talk } from './stage.ts';

const stage = await openStage();
const { collector, db, model, url } = stage;

const remember = (key: string, value: string) => ({
  tools: [{ name: 'remember_fact', arguments: { category: 'wishes', key, value } }],
});

const factsOf = (userId: string) =>
  db
    .selectFrom('memory_facts')
    .select(['category', 'key', 'value'])
    .where('user_id', '=', userId)
    .orderBy('key')
    .execute();

test('what a tool remembers is shown, known by the next answer, and can be undone once', async (t) => {
  const sid = await stage.signIn('u-iryna');
  const iryna = await talk(t, { url, sid });
  const id = await iryna.newSession();
  model.scripts.push(remember('pets', 'кіт'));
  await iryna.say(id, 'У мене кіт');
  const { tool } = await iryna.waitFor('tool.finished');
  const { step_id: stepId, changes } = tool as { step_id: string; changes: unknown };
  assert.deepEqual(changes, [{ category: 'wishes', key: 'pets', value: 'кіт', previous: null }]);
  await iryna.waitFor('message.completed');
  await iryna.say(id, 'Що ти знаєш?');
  await iryna.waitFor('message.completed', 2);
  assert.match(JSON.stringify(model.seen.at(-1)?.messages[0]), /wishes\/pets: кіт/);

  const undo = { type: 'memory.undo', session_id: id, step_id: stepId };
  assert.equal((await iryna.client.ask(undo)).type, 'memory.undone');
  assert.deepEqual(await factsOf('u-iryna'), []);
  assert.equal((await iryna.client.ask(undo)).problem?.code, 'nothing_to_undo');
});

test('what has been changed since is not undone, and what stood there before comes back', async (t) => {
  const sid = await stage.signIn('u-maria');
  const maria = await talk(t, { url, sid });
  const id = await maria.newSession();
  const steps: string[] = [];
  for (const [index, city] of ['Львів', 'Київ'].entries()) {
    model.scripts.push(remember('city', city));
    await maria.say(id, city);
    const { tool } = await maria.waitFor('tool.finished', index + 1);
    steps.push((tool as { step_id: string }).step_id);
    await maria.waitFor('message.completed', index + 1);
  }
  const undo = (step: number) =>
    maria.client.outcome({ type: 'memory.undo', session_id: id, step_id: steps[step] });
  assert.equal(await undo(0), 'nothing_to_undo');
  assert.equal(await undo(1), 'ok');
  assert.deepEqual(await factsOf('u-maria'), [{ category: 'wishes', key: 'city', value: 'Львів' }]);
  assert.equal(await undo(0), 'ok');
  assert.deepEqual(await factsOf('u-maria'), []);
});

test('what a tool changed while it was cancelled is shown, and can be undone', async (t) => {
  const sid = await stage.signIn('u-larysa');
  const larysa = await talk(t, { url, sid });
  const id = await larysa.newSession();
  const rest = gate();
  t.after(rest.open);
  // The answer after the tool is waited for: cancelled there, the tool has done its work.
  model.scripts.push(remember('garden', 'так'), { words: [rest.opened, 'Добре'] });
  await larysa.say(id, 'Хочу сад');
  const { tool } = await larysa.waitFor('tool.finished');
  larysa.client.send({ type: 'message.cancel', session_id: id });
  const { message } = await larysa.waitFor('message.completed');
  assert.partialDeepStrictEqual(message, {
    status: 'cancelled',
    tool_calls: [{ name: 'remember_fact', status: 'done' }],
  });
  const { step_id: stepId } = tool as { step_id: string };
  const undo = { type: 'memory.undo', session_id: id, step_id: stepId };
  assert.equal(await larysa.client.outcome(undo), 'ok');
  assert.deepEqual(await factsOf('u-larysa'), []);
});

test('texts that PostgreSQL does not store lose no answer', async (t) => {
  collector.listings = [listing(1)];
  const sid = await stage.signIn('u-marta');
  const marta = await talk(t, { url, sid });
  const id = await marta.newSession();
  const nul = String.fromCharCode(0);
  const half = String.fromCharCode(0xd800);
  model.scripts.push(
    { tools: [{ name: 'search_listings', arguments: { query: `дім${nul}${half}` } }] },
    { tools: [{ name: `no${nul}tool`, arguments: { [`a${nul}b${half}`]: `${half}${nul}` } }] },
    { words: [`Ось${nul}`, ` і все${half}`] },
  );
  await marta.say(id, 'дім');
  const { message } = await marta.waitFor('message.completed');
  assert.match((message as { content: string }).content, /^Ось і все/);
});

test('a model that says nothing has failed', async (t) => {
  const sid = await stage.signIn('u-nadia');
  const nadia = await talk(t, { url, sid });
  const id = await nadia.newSession();
  model.scripts.push({ words: [] });
  await nadia.say(id, 'Є хто?');
  const { problem } = await nadia.waitFor('error');
  assert.equal(problem?.code, 'model_failed');
});

test('nobody else undoes a step', async (t) => {
  const sid = await stage.signIn('u-nina');
  const nina = await talk(t, { url, sid });
  const id = await nina.newSession();
  model.scripts.push(remember('floor', '3'));
  await nina.say(id, 'Третій поверх');
  const { tool } = await nina.waitFor('tool.finished');
  const { step_id: stepId } = tool as { step_id: string };
  const foreign = await talk(t, {
    url,
    sid: await stage.signIn('u-oleh'),
  });
  const own = await foreign.newSession();
  const undo = (sessionId: string) =>
    foreign.client.outcome({ type: 'memory.undo', session_id: sessionId, step_id: stepId });
  assert.equal(await undo(id), 'session_not_yours');
  assert.equal(await undo(own), 'nothing_to_undo');
  assert.equal((await factsOf('u-nina')).length, 1);
});

test('without svc.tools.use no tool is run, and the model and the user are told', async (t) => {
  const sid = await stage.signIn('u-petro', ['svc.profiles.use']);
  const petro = await talk(t, { url, sid });
  const id = await petro.newSession();
  const asked = collector.asked.length;
  model.scripts.push({ tools: [{ name: 'search_listings', arguments: { query: 'дім' } }] });
  await petro.say(id, 'дім');
  const { tool } = await petro.waitFor('tool.finished');
  assert.partialDeepStrictEqual(tool, { status: 'failed', summary: 'it needs svc.tools.use' });
  await petro.waitFor('message.completed');
  assert.equal(collector.asked.length, asked);
  assert.match(JSON.stringify(model.seen.at(-1)?.messages.at(-1)), /svc\.tools\.use/);
});

test('somebody who is signed out in the middle of an answer gets no more of it', async (t) => {
  const sid = await stage.signIn('u-roman');
  const rest = gate();
  t.after(rest.open);
  model.scripts.push({ words: ['Ще ', rest.opened, 'дещо'] });
  const roman = await talk(t, { url, sid });
  const id = await roman.newSession();
  await roman.say(id, 'Розкажи');
  await roman.hear('Ще ');
  const signedOut = await stage.app.inject({
    method: 'POST',
    url: '/auth/logout',
    cookies: { svc_auth_session: sid },
  });
  assert.equal(signedOut.statusCode, 200);
  assert.equal((await roman.client.closed).code, 4401);
  const answer = () =>
    db
      .selectFrom('conversation_messages')
      .select(['content', 'status', 'problem'])
      .where('session_id', '=', id)
      .where('role', '=', 'assistant')
      .executeTakeFirst();
  await until(async () => (await answer()) !== undefined);
  assert.partialDeepStrictEqual(await answer(), {
    content: 'Ще ',
    status: 'failed',
    problem: { code: 'not_signed_in' },
  });
});

test('a collector that is down is told to the model and the user, and the answer goes on', async (t) => {
  const sid = await stage.signIn('u-sofia');
  collector.failure = { status: 503, title: 'The database does not answer' };
  t.after(() => {
    collector.failure = undefined;
  });
  model.scripts.push({ tools: [{ name: 'get_listing', arguments: { listing_id: 5 } }] });
  const sofia = await talk(t, { url, sid });
  const id = await sofia.newSession();
  await sofia.say(id, 'Що з 5?');
  const { tool } = await sofia.waitFor('tool.finished');
  assert.partialDeepStrictEqual(tool, {
    status: 'failed',
    title: 'Reading listing 5',
    summary: 'The database does not answer',
  });
  const { message } = await sofia.waitFor('message.completed');
  assert.partialDeepStrictEqual(message, { content: 'Готово.' });
  assert.partialDeepStrictEqual(await stage.steps(id), [{ kind: 'tool', status: 'failed' }]);
});

test('a collector that cannot be reached is told alike', async (t) => {
  const gone = await startModelServer(() => 'silence');
  await gone.close();
  const bereft = await stage.another({ COLLECTOR_URL: new URL(gone.url).origin });
  model.scripts.push({ tools: [{ name: 'search_listings', arguments: { query: 'дім' } }] });
  const halyna = await talk(t, { url: bereft, sid: await stage.signIn('u-halyna') });
  const id = await halyna.newSession();
  await halyna.say(id, 'Шукаю дім');
  const { tool } = await halyna.waitFor('tool.finished');
  assert.partialDeepStrictEqual(tool, { status: 'failed', changes: [] });
  const { message } = await halyna.waitFor('message.completed');
  assert.partialDeepStrictEqual(message, { content: 'Готово.' });
  assert.match(JSON.stringify(model.seen.at(-1)?.messages.at(-1)), /does not answer/);
});

test('a session without a name gets one by its first message; one that has a name keeps it', async (t) => {
  collector.listings = [listing(1)];
  const sid = await stage.signIn('u-vira');
  const vira = await talk(t, { url, sid });
  const id = await vira.newSession();
  await vira.say(id, 'Шукаю дім');
  const { session } = await vira.waitFor('session.updated');
  assert.partialDeepStrictEqual(session, { session_id: id, name: 'Назва' });
  const named = await vira.client.ask({ type: 'session.create', name: 'Моя' });
  const second = String(named['session_id']);
  const titles = model.titles;
  await vira.say(second, 'Шукаю дім');
  await vira.waitFor('message.completed', 2);
  // A second answer comes after the naming that would follow the first.
  await vira.say(second, 'Дешевше');
  await vira.waitFor('message.completed', 3);
  assert.equal(model.titles, titles);
  const { name } = await db
    .selectFrom('conversation_sessions')
    .select('name')
    .where('id', '=', second)
    .executeTakeFirstOrThrow();
  assert.equal(name, 'Моя');
});

test('turns, their time and their tools are counted by what came of them', async (t) => {
  const values = async () => {
    const { body } = await stage.app.inject('/metrics');
    return new Map(
      [...body.matchAll(/^(assistant_(?:turns?|tool)_\S+) (\d+)$/gm)].map(
        ([, name = '', value]) => [name, Number(value)],
      ),
    );
  };
  const before = await values();
  const olha = await talk(t, { url, sid: await stage.signIn('u-olha') });
  const id = await olha.newSession();
  model.scripts.push(
    {
      tools: [
        { name: 'get_listing', arguments: { listing_id: 99 } },
        { name: 'made_up', arguments: {} },
      ],
    },
    { words: ['Нема.'] },
    { answer: { status: 400, body: { error: { message: 'No' } } } },
  );
  await olha.say(id, 'Що з 99?');
  await olha.waitFor('message.completed');
  await olha.say(id, 'А тепер?');
  await olha.waitFor('error');
  const grown = async () => {
    const now = await values();
    return [...now].flatMap(([name, value]) => {
      const more = value - (before.get(name) ?? 0);
      return more > 0 && !name.includes('_bucket') ? [[name, more]] : [];
    });
  };
  // It is counted when all is over, which is after it was told.
  const expected = {
    'assistant_turns_total{outcome="completed"}': 1,
    'assistant_turns_total{outcome="failed"}': 1,
    'assistant_turn_duration_seconds_count{outcome="completed"}': 1,
    'assistant_turn_duration_seconds_count{outcome="failed"}': 1,
    'assistant_tool_calls_total{tool="get_listing",outcome="failed"}': 1,
    'assistant_tool_calls_total{tool="unknown",outcome="failed"}': 1,
  };
  await until(async () => (await grown()).length === Object.keys(expected).length);
  assert.deepEqual(Object.fromEntries(await grown()), expected);
});
