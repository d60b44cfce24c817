import assert from 'node:assert/strict';
import { test } from 'node:test';
import { sql } from 'kysely';
import { openAssistant } from '../helpers/assistant.ts';
import { person } from '../helpers/people.ts';
import { listing, startScriptedCollector } from '../helpers/scripted-collector.ts';
import { SocketClient } from '../helpers/socket-client.ts';
import { until } from '../helpers/until.ts';
import { listening } from '../sockets/people.ts';

const collector = await startScriptedCollector();
const assistant = await openAssistant({
  IDP_USER_MAX_AGE_SECONDS: '3600',
  COLLECTOR_URL: collector.url,
  MODEL_CONTEXT_TOKENS: '8192',
});
const app = await assistant.instance();
const url = await listening(app);
const olena = person('u-olena', { permissions: ['svc.profiles.use', 'svc.tools.use'] });
const { sid } = await assistant.signedIn(app, olena);

async function connected(t: { after: (work: () => void) => void }): Promise<SocketClient> {
  const client = await SocketClient.open(url, { sid });
  t.after(() => client.socket.terminate());
  return client;
}

async function newSession(client: SocketClient): Promise<string> {
  const { session_id: id } = await client.ask({ type: 'session.create' });
  return String(id);
}

const of = (client: SocketClient, type: string) =>
  client.frames.filter((frame) => frame.type === type);

test('a wish becomes a search, and its answer names what was found', async (t) => {
  collector.listings = [listing(7), listing(8, { price: 12_500 })];
  const client = await connected(t);
  const id = await newSession(client);
  client.send({
    type: 'message.send',
    id: 'q',
    session_id: id,
    text: 'двокімнатна у Львові до 15000 грн',
  });
  // A session that has no name gets one after the answer.
  await until(() => of(client, 'session.updated').length > 0);
  const asked = collector.asked.at(-1);
  assert.equal(asked?.path, '/api/v1/search/hybrid');
  assert.partialDeepStrictEqual(asked?.body, {
    city: 'Львів',
    rooms_min: 2,
    rooms_max: 2,
    price_max: 15_000,
  });
  const turn = client.frames.filter(({ turn_id }) => turn_id !== undefined);
  assert.deepEqual(
    turn.map(({ seq }) => seq),
    turn.map((_, index) => index + 1),
  );
  assert.ok(turn.every((frame) => frame.id === 'q'));
  const [completed] = of(client, 'message.completed');
  assert.ok(completed);
  const { content } = completed['message'] as { content: string };
  assert.match(content, /Оголошення 7.*\n.*Оголошення 8 — 12\s500\sUAH/u);
  const streamed = of(client, 'message.delta').map(({ text }) => text);
  assert.equal(streamed.join(''), content);
  assert.deepEqual(
    turn.map(({ type }) => type).filter((type) => type !== 'message.delta'),
    ['message.started', 'tool.started', 'tool.finished', 'message.completed'],
  );
});

test('the mock summarizes what has no room in its window, each time alike', async (t) => {
  const client = await connected(t);
  const summaries: (string | undefined)[] = [];
  for (let run = 0; run < 2; run += 1) {
    const id = await newSession(client);
    for (const word of ['перше', 'друге', 'третє', 'четверте']) {
      const before = of(client, 'message.completed').length;
      const text = `${word} ${'слово '.repeat(600)}`;
      client.send({ type: 'message.send', session_id: id, text });
      await until(() => of(client, 'message.completed').length > before);
    }
    const row = await assistant.db
      .selectFrom('conversation_summaries')
      .select('summary')
      .where('session_id', '=', id)
      .executeTakeFirst();
    summaries.push(row?.summary);
  }
  assert.match(summaries[0] ?? '', /^- перше слово/u);
  assert.equal(summaries[0], summaries[1]);
});

test('a session that cannot be opened again is heard as before', async (t) => {
  const { db } = assistant;
  const speaker = await connected(t);
  const session_id = await newSession(speaker);
  const hearer = await connected(t);
  const open = { type: 'session.open', session_id };
  assert.equal(await hearer.outcome(open), 'ok');
  await sql`alter table chat_turns rename to unreadable_turns`.execute(db);
  assert.equal(await hearer.outcome(open), 'internal_error');
  await sql`alter table unreadable_turns rename to chat_turns`.execute(db);
  await speaker.ask({ type: 'message.send', session_id, text: 'Чуєш?' });
  await until(() => hearer.frames.some(({ type }) => type === 'message.completed'));
});

test('who opens long sessions again and again waits for the next minute, on every connection', async (t) => {
  const taras = await assistant.signedIn(
    app,
    person('u-taras', { permissions: ['svc.profiles.use'] }),
  );
  const connect = async (cookie: string) => {
    const client = await SocketClient.open(url, { sid: cookie });
    t.after(() => client.socket.terminate());
    return client;
  };
  const clients = [await connect(taras.sid), await connect(taras.sid)] as const;
  const session_id = await newSession(clients[0]);
  // What tools gave is sent as well.
  await sql`insert into conversation_messages (session_id, role, content, tool_calls)
    select ${session_id}, 'assistant', repeat('ї', 8000),
      jsonb_build_array(jsonb_build_object('output', repeat('ї', 8000)))
    from generate_series(1, 100) as n`.execute(assistant.db);
  const outcomes: string[] = [];
  for (let nth = 0; nth < 11; nth += 1) {
    const client = clients[nth % 2 === 0 ? 0 : 1];
    outcomes.push(await client.outcome({ type: 'session.open', session_id }));
  }
  assert.deepEqual(
    [outcomes.filter((outcome) => outcome === 'ok').length, new Set(outcomes.slice(10))],
    [10, new Set(['rate_limited'])],
  );
  const refusal = clients[0].frames.findLast(({ type }) => type === 'error');
  assert.match(JSON.stringify(refusal), /wait for \d+ s, then open it again/);
  const other = await connected(t);
  assert.equal(
    await other.outcome({ type: 'session.open', session_id: await newSession(other) }),
    'ok',
  );
});
