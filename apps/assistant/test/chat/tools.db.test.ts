import assert from 'node:assert/strict';
import type { ServerResponse } from 'node:http';
import { test } from 'node:test';
import { chunk, startModelServer, streamed } from '@oselya/model/testing';
import { sql } from 'kysely';
import { gate } from '../helpers/scripted-model.ts';
import { listing } from '../helpers/scripted-collector.ts';
import { until } from '../helpers/until.ts';
import { converse, openStage, refusal, talk } from './stage.ts';

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
  const iryna = await converse(t, { url, sid });
  const id = await iryna.newSession();
  model.scripts.push(remember('pets', 'кіт'));
  const answer = iryna.say(id, 'У мене кіт');
  const { tool } = await answer.waitFor('tool.finished');
  assert.deepEqual(tool.changes, [
    { category: 'wishes', key: 'pets', value: 'кіт', previous: null },
  ]);
  await answer.waitFor('message.completed');
  await iryna.say(id, 'Що ти знаєш?').waitFor('message.completed');
  assert.match(JSON.stringify(model.seen.at(-1)?.messages[0]), /wishes\/pets: кіт/);

  await iryna.undo(id, tool.step_id);
  assert.deepEqual(await factsOf('u-iryna'), []);
  await assert.rejects(iryna.undo(id, tool.step_id), refusal('nothing_to_undo'));
});

test('what has been changed since is not undone, and what stood there before comes back', async (t) => {
  const sid = await stage.signIn('u-maria');
  const maria = await converse(t, { url, sid });
  const id = await maria.newSession();
  const steps: string[] = [];
  for (const city of ['Львів', 'Київ']) {
    model.scripts.push(remember('city', city));
    const answer = maria.say(id, city);
    steps.push((await answer.waitFor('tool.finished')).tool.step_id);
    await answer.waitFor('message.completed');
  }
  const [first = '', second = ''] = steps;
  await assert.rejects(maria.undo(id, first), refusal('nothing_to_undo'));
  await maria.undo(id, second);
  assert.deepEqual(await factsOf('u-maria'), [{ category: 'wishes', key: 'city', value: 'Львів' }]);
  await maria.undo(id, first);
  assert.deepEqual(await factsOf('u-maria'), []);
});

test('what a tool changed while it was cancelled is shown, and can be undone', async (t) => {
  const sid = await stage.signIn('u-larysa');
  const larysa = await converse(t, { url, sid });
  const id = await larysa.newSession();
  const rest = gate();
  t.after(rest.open);
  // The answer after the tool is waited for: cancelled there, the tool has done its work.
  model.scripts.push(remember('garden', 'так'), { words: [rest.opened, 'Добре'] });
  const answer = larysa.say(id, 'Хочу сад');
  const { tool } = await answer.waitFor('tool.finished');
  await larysa.cancel(id);
  const { message } = await answer.waitFor('message.completed');
  assert.partialDeepStrictEqual(message, {
    status: 'cancelled',
    tool_calls: [{ name: 'remember_fact', status: 'done' }],
  });
  await larysa.undo(id, tool.step_id);
  assert.deepEqual(await factsOf('u-larysa'), []);
});

test('texts that PostgreSQL does not store lose no answer', async (t) => {
  collector.listings = [listing(1)];
  const sid = await stage.signIn('u-marta');
  const marta = await converse(t, { url, sid });
  const id = await marta.newSession();
  const nul = String.fromCharCode(0);
  const half = String.fromCharCode(0xd800);
  model.scripts.push(
    { tools: [{ name: 'search_listings', arguments: { query: `дім${nul}${half}` } }] },
    { tools: [{ name: `no${nul}tool`, arguments: { [`a${nul}b${half}`]: `${half}${nul}` } }] },
    { words: [`Ось${nul}`, ` і все${half}`] },
  );
  const { message } = await marta.say(id, 'дім').waitFor('message.completed');
  assert.match(message.content, /^Ось і все/);
});

test('a model that says nothing has failed', async (t) => {
  const sid = await stage.signIn('u-nadia');
  const nadia = await converse(t, { url, sid });
  const id = await nadia.newSession();
  model.scripts.push({ words: [] });
  const { problem } = await nadia.say(id, 'Є хто?').waitFor('error');
  assert.equal(problem.code, 'model_failed');
});

test('nobody else undoes a step', async (t) => {
  const sid = await stage.signIn('u-nina');
  const nina = await converse(t, { url, sid });
  const id = await nina.newSession();
  model.scripts.push(remember('floor', '3'));
  const { tool } = await nina.say(id, 'Третій поверх').waitFor('tool.finished');
  const foreign = await converse(t, { url, sid: await stage.signIn('u-oleh') });
  const own = await foreign.newSession();
  await assert.rejects(foreign.undo(id, tool.step_id), refusal('session_not_yours'));
  await assert.rejects(foreign.undo(own, tool.step_id), refusal('nothing_to_undo'));
  assert.equal((await factsOf('u-nina')).length, 1);
});

test('without svc.tools.use no tool is run, and the model and the user are told', async (t) => {
  const sid = await stage.signIn('u-petro', ['svc.profiles.use']);
  const petro = await converse(t, { url, sid });
  const id = await petro.newSession();
  const asked = collector.asked.length;
  model.scripts.push({ tools: [{ name: 'search_listings', arguments: { query: 'дім' } }] });
  const answer = petro.say(id, 'дім');
  const { tool } = await answer.waitFor('tool.finished');
  assert.partialDeepStrictEqual(tool, { status: 'failed', summary: 'it needs svc.tools.use' });
  await answer.waitFor('message.completed');
  assert.equal(collector.asked.length, asked);
  assert.match(JSON.stringify(model.seen.at(-1)?.messages.at(-1)), /svc\.tools\.use/);
});

test('without svc.memory.read_own a model is told nothing that is remembered, and changes none of it', async (t) => {
  const sid = await stage.signIn('u-yaryna', ['svc.profiles.use', 'svc.tools.use']);
  const known = { category: 'wishes', key: 'pets', value: 'рись' };
  await db
    .insertInto('memory_facts')
    .values({ ...known, user_id: 'u-yaryna' })
    .execute();
  await db
    .insertInto('memory_summaries')
    .values({ user_id: 'u-yaryna', summary: 'Має рись.' })
    .execute();
  const yaryna = await converse(t, { url, sid });
  const id = await yaryna.newSession();
  const before = model.seen.length;
  const { category, key } = known;
  model.scripts.push({
    tools: [
      { name: 'remember_fact', arguments: { ...known, value: 'кіт' } },
      { name: 'forget_fact', arguments: { category, key } },
    ],
  });
  const answer = yaryna.say(id, 'Що ти про мене знаєш?');
  await answer.waitFor('message.completed');
  const tools = answer.events.flatMap((event) =>
    event.type === 'tool.finished' ? [event.tool] : [],
  );
  const refused = { status: 'failed', summary: 'it needs svc.memory.read_own', changes: [] };
  assert.equal(tools.length, 2);
  assert.partialDeepStrictEqual(tools, [refused, refused]);
  assert.deepEqual(await factsOf('u-yaryna'), [known]);
  const seen = model.seen.slice(before);
  assert.equal(seen.length, 2);
  assert.doesNotMatch(JSON.stringify(seen), /рись/);
});

test('somebody who is signed out in the middle of an answer gets no more of it', async (t) => {
  const sid = await stage.signIn('u-roman');
  const rest = gate();
  t.after(rest.open);
  model.scripts.push({ words: ['Ще ', rest.opened, 'дещо'] });
  const roman = await converse(t, { url, sid });
  const id = await roman.newSession();
  const said = roman.say(id, 'Розкажи');
  await said.hear('Ще ');
  const signedOut = await stage.app.inject({
    method: 'POST',
    url: '/auth/logout',
    cookies: { svc_auth_session: sid },
  });
  assert.equal(signedOut.statusCode, 200);
  assert.equal((await said.failure()).code, 'signed_out');
  assert.equal(roman.statuses.at(-1)?.type, 'ended');
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
  assert.equal(said.streamed, 'Ще ');
});

test('a collector that is down is told to the model and the user, and the answer goes on', async (t) => {
  const sid = await stage.signIn('u-sofia');
  collector.failure = { status: 503, title: 'The database does not answer' };
  t.after(() => {
    collector.failure = undefined;
  });
  model.scripts.push({ tools: [{ name: 'get_listing', arguments: { listing_id: 5 } }] });
  const sofia = await converse(t, { url, sid });
  const id = await sofia.newSession();
  const answer = sofia.say(id, 'Що з 5?');
  const { tool } = await answer.waitFor('tool.finished');
  assert.partialDeepStrictEqual(tool, {
    status: 'failed',
    title: 'Reading listing #5',
    summary: 'The database does not answer',
  });
  const { message } = await answer.waitFor('message.completed');
  assert.equal(message.content, 'Готово.');
  assert.partialDeepStrictEqual(await stage.steps(id), [{ kind: 'tool', status: 'failed' }]);
});

test('a collector that cannot be reached is told alike', async (t) => {
  const gone = await startModelServer(() => 'silence');
  await gone.close();
  const bereft = await stage.another({ COLLECTOR_URL: new URL(gone.url).origin });
  model.scripts.push({ tools: [{ name: 'search_listings', arguments: { query: 'дім' } }] });
  const halyna = await converse(t, { url: bereft, sid: await stage.signIn('u-halyna') });
  const answer = halyna.say(await halyna.newSession(), 'Шукаю дім');
  const { tool } = await answer.waitFor('tool.finished');
  assert.partialDeepStrictEqual(tool, { status: 'failed', changes: [] });
  const { message } = await answer.waitFor('message.completed');
  assert.equal(message.content, 'Готово.');
  assert.match(JSON.stringify(model.seen.at(-1)?.messages.at(-1)), /does not answer/);
});

// What becomes of a session is a frame that the client passes over.
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

test('whoever has a session open hears of its name, on whichever process and in whichever turn', async (t) => {
  const titled = gate();
  t.after(titled.open);
  const sid = await stage.signIn('u-vira');
  const vira = await talk(t, { url, sid });
  const id = await vira.newSession();
  const elsewhere = await talk(t, { url: await stage.another(), sid });
  await elsewhere.client.ask({ type: 'session.open', session_id: id });
  model.titled = titled.opened;
  await vira.say(id, 'Шукаю дім');
  await elsewhere.waitFor('message.completed');
  // The next answer is being written, or has been, when the name of the first comes.
  await elsewhere.say(id, 'Дешевше');
  await elsewhere.waitFor('message.completed', 2);
  titled.open();
  for (const one of [vira, elsewhere]) {
    const { session, session_id: of } = await one.waitFor('session.updated');
    assert.partialDeepStrictEqual(session, { session_id: id, name: 'Назва' });
    assert.equal(of, id);
  }
  const renamed = await stage.app.inject({
    method: 'PATCH',
    url: `/sessions/${id}`,
    cookies: { svc_auth_session: sid },
    payload: { name: 'Дім', pinned: true },
  });
  assert.equal(renamed.statusCode, 200);
  for (const one of [vira, elsewhere]) {
    const { session } = await one.waitFor('session.updated', 2);
    assert.partialDeepStrictEqual(session, { name: 'Дім', pinned: true });
  }
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
  const olha = await converse(t, { url, sid: await stage.signIn('u-olha') });
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
  await olha.say(id, 'Що з 99?').waitFor('message.completed');
  await olha.say(id, 'А тепер?').waitFor('error');
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

test('nothing that is said, remembered or answered is in the log, whatever fails', async (t) => {
  const mark = 'Потайне 4711';
  const begun = stage.lines.length;
  const logged = (what: string) => stage.lines.slice(begun).some((line) => line.includes(what));
  // PostgreSQL says of a row that breaks a rule what stands in it.
  await sql`
    alter table memory_facts add constraint unmarked check (value not like '%4711%')`.execute(db);
  t.after(() => sql`alter table memory_facts drop constraint unmarked`.execute(db));
  t.after(() => {
    model.titleAnswer = undefined;
  });
  model.titleAnswer = { status: 400, body: { error: { message: 'No' } } };
  const zoya = await converse(t, { url, sid: await stage.signIn('u-zoya') });
  const id = await zoya.newSession();
  model.scripts.push(remember('secret', mark), { words: [mark] });
  const answer = zoya.say(id, mark);
  assert.equal((await answer.waitFor('tool.finished')).tool.status, 'failed');
  await answer.waitFor('message.completed');
  await until(() => logged('a session could not be named'));
  const heard = gate();
  t.after(heard.open);
  const breakOff = async (response: ServerResponse) => {
    await heard.opened;
    response.destroy();
  };
  model.scripts.push({ answer: streamed([chunk({ content: mark }), breakOff]) });
  const broken = zoya.say(id, `${mark}?`);
  await broken.hear(mark);
  heard.open();
  await broken.waitFor('error');
  for (const what of ['a tool failed', 'a turn failed']) assert.ok(logged(what), what);
  assert.deepEqual(
    stage.lines.filter((line) => /Потайне|4711/.test(line)),
    [],
  );
});
