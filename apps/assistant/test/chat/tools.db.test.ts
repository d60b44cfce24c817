import assert from 'node:assert/strict';
import { test } from 'node:test';
import { gate } from '../helpers/scripted-model.ts';
import { listing } from '../helpers/scripted-collector.ts';
import { until } from '../helpers/until.ts';
import { openStage, SPEAKER, talk } from './stage.ts';

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
  const sid = await stage.signIn('u-iryna', [...SPEAKER, 'svc.memory.read_own']);
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
  const sid = await stage.signIn('u-maria', [...SPEAKER, 'svc.memory.read_own']);
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

test('nobody else undoes a step', async (t) => {
  const sid = await stage.signIn('u-nina', [...SPEAKER, 'svc.memory.read_own']);
  const nina = await talk(t, { url, sid });
  const id = await nina.newSession();
  model.scripts.push(remember('floor', '3'));
  await nina.say(id, 'Третій поверх');
  const { tool } = await nina.waitFor('tool.finished');
  const { step_id: stepId } = tool as { step_id: string };
  const foreign = await talk(t, {
    url,
    sid: await stage.signIn('u-oleh', [...SPEAKER, 'svc.memory.read_own']),
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
  const { steps } = await planOf(id);
  assert.partialDeepStrictEqual(steps, [{ kind: 'tool', status: 'failed' }]);
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
  await vira.say(second, 'Шукаю дім');
  await vira.waitFor('message.completed', 2);
  const { name } = await db
    .selectFrom('conversation_sessions')
    .select('name')
    .where('id', '=', second)
    .executeTakeFirstOrThrow();
  assert.equal(name, 'Моя');
});

async function planOf(sessionId: string): Promise<{ steps: object[] }> {
  const steps = await db
    .selectFrom('agent_steps')
    .selectAll()
    .where('session_id', '=', sessionId)
    .orderBy('position')
    .execute();
  return { steps };
}
