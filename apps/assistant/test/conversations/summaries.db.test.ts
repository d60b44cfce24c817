import assert from 'node:assert/strict';
import { test } from 'node:test';
import { until } from '@oselya/testing';
import { createModelClient } from '@oselya/model';
import { sql } from 'kysely';
import { summarizeEarlier } from '../../src/conversations/agent/summaries.ts';
import { listMessages } from '../../src/conversations/messages.ts';
import { person } from '../helpers/people.ts';
import { type Conversation, gate } from '../helpers/scripted-model.ts';
import { addMessages, openStage, openRawClient, type RawClient } from './stage.ts';

const CONTEXT_TOKENS = 16_384;

const stage = await openStage({ MODEL_CONTEXT_TOKENS: String(CONTEXT_TOKENS) });
const { db, model, stored, url } = stage;
const admin = await stage.signedIn(stage.app, person('u-admin', { isAdmin: true }));
const sid = await stage.signIn('u-olena');

/** Returns a text of about 2,400 tokens. Three of them have room beside the instructions. */
const long = (name: string) => `${name} ${'а б '.repeat(1600)}`.trim();

/** Sends messages, and waits for each answer. */
async function sayAll(
  client: RawClient,
  sessionId: string,
  names: readonly string[],
): Promise<void> {
  for (const name of names) {
    const before = client.of('message.completed').length;
    await client.say(sessionId, long(name));
    await client.waitFor('message.completed', before + 1);
  }
}

/** Returns the names of the long messages in a request. */
const namesIn = ({ messages }: Conversation) =>
  messages.flatMap(({ role, content }) =>
    role === 'user' ? (/^\w+(?= а б)/u.exec(String(content))?.[0] ?? []) : [],
  );

/** Returns the data of a request for a summary. */
function dataOf({ messages }: Conversation): {
  summary_so_far: string;
  messages: { role: string; text: string; tools?: object[] }[];
} {
  return JSON.parse(String(messages[1]?.content));
}

const summariesOf = (sessionId: string) =>
  db.selectFrom('conversation_summaries').selectAll().where('session_id', '=', sessionId).execute();

test('Earlier messages are summarized step by step, and the summary replaces them', async (t) => {
  const olena = await openRawClient(t, { url, sid });
  const id = await olena.newSession();
  const summarized = model.summarized.length;
  const names = ['one', 'two', 'three', 'four', 'five', 'six', 'seven'];
  await sayAll(olena, id, names);
  const [first, second] = model.summarized.slice(summarized);
  assert.ok(first !== undefined && second !== undefined);
  assert.equal(dataOf(first).summary_so_far, '');
  assert.equal(dataOf(second).summary_so_far, `Підсумок ${summarized + 1}.`);
  assert.equal(second.tools, undefined);
  const sent = [first, second].flatMap((request) =>
    dataOf(request).messages.filter(({ role }) => role === 'user'),
  );
  const sentNames = sent.map(({ text }) => text.split(' ')[0] ?? '');
  assert.deepEqual(sentNames, names.slice(0, sentNames.length));

  const last = model.seen.at(-1);
  assert.ok(last !== undefined);
  assert.deepEqual(namesIn(last), names.slice(sentNames.length));
  const [system, question, summary, next] = last.messages;
  assert.ok(!String(system?.content).includes('Підсумок'));
  assert.deepEqual([question?.role, next?.role], ['user', 'user']);
  assert.deepEqual(summary, { role: 'assistant', content: `Підсумок ${summarized + 2}.` });

  const steps = await stage.steps(id);
  assert.deepEqual(
    steps.map(({ kind, status }) => [kind, status]),
    [
      ['summary', 'done'],
      ['summary', 'done'],
    ],
  );
  assert.equal((await stored(id)).length, 2 * names.length);

  const context = (await admin.get(`/sessions/${id}/context`)).json();
  assert.equal(context.summary.text, `Підсумок ${summarized + 2}.`);
  assert.deepEqual(context.request.messages, [
    ...last.messages.slice(1),
    { role: 'assistant', content: 'Готово.' },
  ]);
  const { sessions } = JSON.parse(
    (await stage.app.inject({ url: '/me/export', cookies: { svc_auth_session: sid } })).body,
  );
  const exported = sessions.find(({ session_id }: { session_id: string }) => session_id === id);
  assert.equal(exported.summary, context.summary.text);
});

test('A long conversation of an older system is summarized from its beginning, in parts', async (t) => {
  const olena = await openRawClient(t, { url, sid });
  const id = await olena.newSession();
  const names = Array.from({ length: 30 }, (_, nth) => `old${nth}`);
  await addMessages(db, id, ...names.map(long));
  // Such rows may have no time; their numbers order them.
  await sql`update conversation_messages set created_at = null where session_id = ${id}`.execute(
    db,
  );
  const summarized = model.summarized.length;
  await sayAll(olena, id, ['one']);
  assert.equal(model.summarized.length - summarized, 4);
  await sayAll(olena, id, ['two', 'three']);
  const requests = model.summarized.slice(summarized);
  const sent = requests.flatMap((request) => dataOf(request).messages);
  const sentNames = sent
    .filter(({ role }) => role === 'user')
    .map(({ text }) => text.split(' ')[0] ?? '');
  const all = [...names, 'one', 'two', 'three'];
  assert.deepEqual(sentNames, all.slice(0, sentNames.length));
  const [row] = await summariesOf(id);
  assert.equal(row?.revision, requests.length);
  const last = model.seen.at(-1);
  assert.ok(last !== undefined);
  assert.deepEqual(namesIn(last), all.slice(sentNames.length));
  assert.ok(sentNames.includes('old29'));
});

test('A failed summary does not fail the answer, and the step reports omitted messages', async (t) => {
  const olena = await openRawClient(t, { url, sid });
  const id = await olena.newSession();
  await sayAll(olena, id, ['one', 'two', 'three']);
  model.summaries.push({ answer: { status: 400, body: { error: { message: 'No' } } } });
  await sayAll(olena, id, ['four']);
  const [step, ...others] = await stage.steps(id);
  assert.deepEqual([step?.kind, step?.status, others], ['summary', 'failed', []]);
  const detail = JSON.parse(step?.detail ?? '');
  assert.ok(detail.messages_left_out > 0);
  assert.match(detail.error, /400/);
  const last = model.seen.at(-1);
  assert.ok(last !== undefined);
  assert.deepEqual(namesIn(last).at(-1), 'four');
  assert.ok(!namesIn(last).includes('one'));
  assert.equal(last.messages[1]?.role, 'user', 'an answer goes with its question');
  assert.deepEqual(await summariesOf(id), []);
  // The next answer summarizes them.
  const summarized = model.summarized.length;
  await sayAll(olena, id, ['five']);
  const [again] = model.summarized.slice(summarized);
  assert.match(again === undefined ? '' : (dataOf(again).messages[0]?.text ?? ''), /^one /);
  assert.equal((await summariesOf(id)).length, 1);
});

test('One of two concurrent summaries of a session is stored', async (t) => {
  const olena = await openRawClient(t, { url, sid });
  const id = await olena.newSession();
  await sayAll(olena, id, ['one', 'two']);
  const client = createModelClient({
    mode: 'openai',
    baseUrl: model.url,
    chat: 'test',
    timeoutMs: 20_000,
    embedding: false,
    embeddingDimensions: 1,
  });
  t.after(() => client.close());
  const [newest] = await listMessages(db, { sessionId: id, scope: 'everything', limit: 1 });
  assert.ok(newest !== undefined);
  const rest = gate();
  const summarized = model.summarized.length;
  model.summaries.push({ words: [rest.opened, 'Перший.'] }, { words: [rest.opened, 'Другий.'] });
  const earlier = {
    sessionId: id,
    scope: 'everything' as const,
    summary: undefined,
    upTo: newest.position,
    summaryTokens: 1000,
  };
  const bounds = {
    modelName: '',
    contextTokens: CONTEXT_TOKENS,
    signal: AbortSignal.timeout(20_000),
  };
  const both = Promise.all([
    summarizeEarlier({ db, model: client }, earlier, bounds),
    summarizeEarlier({ db, model: client }, earlier, bounds),
  ]);
  await until(() => model.summarized.length === summarized + 2);
  rest.open();
  const made = (await both).filter((one) => one !== undefined);
  assert.equal(made.length, 1);
  const rows = await summariesOf(id);
  assert.deepEqual(
    rows.map(({ summary, revision }) => [summary, revision]),
    [[made[0]?.text, 1]],
  );
});
