import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { person } from '../helpers/people.ts';
import { listing } from '../helpers/scripted-collector.ts';
import { folderOf } from '../profiles/folder.ts';
import { join } from 'node:path';
import { openStage, SPEAKER, talk } from './stage.ts';

const ENDPOINT = {
  id: 'http:forge:3000',
  name: 'Forge',
  type: 'http',
  status: 'active',
  exposure: 'private',
  docs: 'docs/forge.md',
  last_reviewed: '2026-11-01',
  url: 'https://forge.example.test/',
};
const folder = await folderOf({ 'endpoints.json': JSON.stringify([ENDPOINT]) });
const stage = await openStage({
  COLLECTOR_API_KEY: 'key-of-the-assistant',
  INVENTORY_FILE: join(folder, 'endpoints.json'),
});
const { collector, db, model, url } = stage;
const sid = await stage.signIn('u-olena');
// The one profile that looks up endpoints is for admins, who see the plan, too.
const all = { isAdmin: true, permissions: [...SPEAKER] };
const admin = await stage.signedIn(stage.app, person('u-admin', all));

const found = listing(7, { title: 'Біля парку', district: 'Сихів', phones: ['+380671234567'] });
const brief = {
  listing_id: 7,
  title: 'Біля парку',
  deal_type: 'rent',
  property_type: 'apartment',
  price: 14_000,
  currency: 'UAH',
  city: 'Львів',
  district: 'Сихів',
  rooms: 2,
  area_total: 52,
  floor: '3/9',
  text: 'Світла квартира біля парку.',
};
const list = { told: { total: '1', listings: [brief] }, kept: { listing_ids: [7] } };

before(async () => {
  collector.listings = [found];
  const fact = { user_id: 'u-olena', category: 'wishes', key: 'pets', value: 'кіт' };
  await db.insertInto('memory_facts').values(fact).execute();
});

/** A tool as the model calls it, what it asks of the collector, and what becomes of its answer. */
type Case = {
  what: string;
  name: string;
  input: object;
  asked?: { path: string; body?: object };
  /** For the model in this answer, and in those after it. */
  told: object;
  kept?: object;
  title: string;
  summary: string;
  isAdmin?: boolean;
};

const cases: readonly Case[] = [
  {
    what: 'a search for words and meaning',
    name: 'search_listings',
    input: { query: 'біля парку', city: 'Львів', rooms_min: 2, rooms_max: 2, price_max: 15_000 },
    asked: {
      path: '/api/v1/search/hybrid',
      body: {
        query: 'біля парку',
        city: 'Львів',
        rooms_min: 2,
        rooms_max: 2,
        price_max: 15_000,
        limit: 5,
        fold_duplicates: true,
      },
    },
    ...list,
    title: 'Searching listings · біля парку · Львів · rooms 2 · price ≤ 15 000',
    summary: '1 of 1',
  },
  {
    what: 'a search for words alone',
    name: 'search_listings',
    input: { query: 'Наукова', mode: 'words', limit: 3 },
    asked: {
      path: '/api/v1/search/fulltext',
      body: { query: 'Наукова', limit: 3, fold_duplicates: true },
    },
    ...list,
    title: 'Searching listings · Наукова',
    summary: '1 of 1',
  },
  {
    what: 'a search for more like a listing',
    name: 'similar_listings',
    input: { listing_id: 3, area_min: 40 },
    asked: {
      path: '/api/v1/search/similar',
      body: { listing_id: 3, area_min: 40, limit: 5, fold_duplicates: true },
    },
    ...list,
    title: 'Searching for more like #3 · m² ≥ 40',
    summary: '1 of 1',
  },
  {
    what: 'a search for what a text means',
    name: 'similar_listings',
    input: { query: 'тиха вулиця' },
    asked: {
      path: '/api/v1/search/similar',
      body: { query: 'тиха вулиця', limit: 5, fold_duplicates: true },
    },
    ...list,
    title: 'Searching by meaning · тиха вулиця',
    summary: '1 of 1',
  },
  {
    what: 'the details of a listing',
    name: 'get_listing',
    input: { listing_id: 7 },
    asked: { path: '/api/v1/listings/7' },
    told: { ...brief, phones: ['+380671234567'], updated_at: '2026-03-02T09:15:00.000Z' },
    kept: { listing_id: 7 },
    title: 'Reading listing #7',
    summary: 'Біля парку',
  },
  {
    what: 'a fact that is forgotten',
    name: 'forget_fact',
    input: { category: 'wishes', key: 'pets' },
    told: { forgotten: { category: 'wishes', key: 'pets', value: 'кіт' } },
    title: 'Forgetting wishes/pets',
    summary: 'кіт',
  },
  {
    what: 'an endpoint of the installation',
    name: 'lookup_endpoint',
    input: { words: 'forge private' },
    told: { total: 1, endpoints: [ENDPOINT] },
    title: 'Looking up endpoints · forge private',
    summary: 'http:forge:3000',
    isAdmin: true,
  },
];

for (const { what, name, input, asked, told, kept = told, title, summary, isAdmin } of cases) {
  test(`${what}: what is asked, told, kept and noted in the plan`, async (t) => {
    const talker = await talk(t, { url, sid: isAdmin === true ? admin.sid : sid });
    const profile = isAdmin === true ? { profile_id: 'diagnostics' } : {};
    const created = await talker.client.ask({ type: 'session.create', name: what, ...profile });
    const id = String(created['session_id']);
    const requests = collector.asked.length;
    model.scripts.push({ tools: [{ name, arguments: input }] });
    await talker.say(id, 'Допоможи');
    await talker.waitFor('message.completed');

    const authorization = 'Bearer key-of-the-assistant';
    assert.deepEqual(
      collector.asked.slice(requests),
      asked === undefined ? [] : [{ body: undefined, ...asked, authorization }],
    );
    assert.deepEqual(lastTold(), told);
    const { tool } = await talker.waitFor('tool.finished');
    assert.partialDeepStrictEqual(tool, { name, title, status: 'done', summary });

    await talker.say(id, 'Дякую');
    await talker.waitFor('message.completed', 2);
    assert.deepEqual(lastTold(), kept);

    const { steps } = (await admin.get(`/sessions/${id}/planning`)).json();
    assert.equal(steps.length, 1);
    const [{ id: stepId, turn_id: turnId, started_at, finished_at, detail, ...step }] = steps;
    assert.deepEqual(step, { kind: 'tool', title, status: 'done' });
    assert.equal(stepId, (tool as { step_id: string }).step_id);
    assert.equal(turnId, talker.of('message.started')[0]?.['turn_id']);
    assert.ok(Date.parse(started_at) <= Date.parse(finished_at));
    const { output, ...called } = JSON.parse(detail);
    assert.deepEqual(called, { tool: name, input });
    assert.deepEqual(JSON.parse(output), told);
  });
}

/** What the newest request to the model says that the last tool told. */
function lastTold(): unknown {
  const message = model.seen.at(-1)?.messages.findLast(({ role }) => role === 'tool');
  return JSON.parse(String(message?.content));
}

test('a fact that was forgotten comes back when that is undone', async (t) => {
  const wish = { user_id: 'u-olena', category: 'wishes', key: 'balcony', value: 'так' };
  await db.insertInto('memory_facts').values(wish).execute();
  const olena = await talk(t, { url, sid });
  const id = await olena.newSession();
  const { category, key } = wish;
  model.scripts.push({ tools: [{ name: 'forget_fact', arguments: { category, key } }] });
  await olena.say(id, 'Балкон не потрібен');
  const { tool } = await olena.waitFor('tool.finished');
  const { step_id, changes } = tool as { step_id: string; changes: unknown };
  assert.deepEqual(changes, [{ category, key, value: null, previous: 'так' }]);
  await olena.waitFor('message.completed');
  const facts = () =>
    db
      .selectFrom('memory_facts')
      .select(['user_id', 'category', 'key', 'value'])
      .where('key', '=', key)
      .execute();
  assert.deepEqual(await facts(), []);
  const undo = { type: 'memory.undo', session_id: id, step_id };
  assert.equal(await olena.client.outcome(undo), 'ok');
  assert.deepEqual(await facts(), [wish]);
  assert.equal(await olena.client.outcome(undo), 'nothing_to_undo');
});

test('what an admin is shown of a session is what the model is sent next, and the question after it', async (t) => {
  await db
    .insertInto('memory_facts')
    .values({ user_id: 'u-olena', category: 'wishes', key: 'city', value: 'Львів' })
    .execute();
  await db
    .insertInto('memory_summaries')
    .values({ user_id: 'u-olena', summary: 'Шукає для себе.' })
    .execute();
  const olena = await talk(t, { url, sid });
  const id = await olena.newSession();
  await stage.app.inject({
    method: 'PUT',
    url: `/sessions/${id}/files/a.txt`,
    headers: { 'content-type': 'text/plain' },
    cookies: { svc_auth_session: sid },
    payload: 'a',
  });
  const calls = [
    { name: 'search_listings', arguments: { query: 'дім' } },
    { name: 'get_listing', arguments: { listing_id: 99 } },
  ];
  model.scripts.push({ tools: calls }, { words: ['Є одна.'] });
  await olena.say(id, 'Шукай');
  await olena.waitFor('message.completed');

  const { request } = (await admin.get(`/sessions/${id}/context`)).json();
  await olena.say(id, 'А ще?');
  await olena.waitFor('message.completed', 2);
  const sent = model.seen.at(-1) as (typeof model.seen)[number] & { model: string };
  const [system, ...messages] = sent.messages;
  assert.equal(request.system, system?.content);
  assert.match(request.system, /city: Львів[^]*a\.txt/);
  assert.match(request.system, /Шукає для себе/);
  assert.deepEqual(
    request.tools.map(({ input, ...tool }: { input: object }) => ({
      type: 'function',
      function: { ...tool, parameters: input },
    })),
    sent.tools,
  );
  // Empty for the one that is configured.
  assert.deepEqual([request.model, sent.model], ['', 'test']);
  assert.deepEqual([...request.messages.map(asSent), { role: 'user', content: 'А ще?' }], messages);
});

test('a question whose answer failed is shown and sent with saying so, and the next one is answered', async (t) => {
  const olena = await talk(t, { url, sid });
  const id = await olena.newSession();
  model.scripts.push({ answer: { status: 400, body: { error: { message: 'No' } } } });
  await olena.say(id, 'Шукай');
  await olena.waitFor('error');
  const { request } = (await admin.get(`/sessions/${id}/context`)).json();
  await olena.say(id, 'А тепер?');
  await olena.waitFor('message.completed');
  const [, ...messages] = model.seen.at(-1)?.messages ?? [];
  assert.deepEqual(messages, [...request.messages, { role: 'user', content: 'А тепер?' }]);
  assert.deepEqual(
    messages.map(({ role, content }) => [role, content]),
    [
      ['user', 'Шукай'],
      ['assistant', '(No answer came.)'],
      ['user', 'А тепер?'],
    ],
  );
});

/** A message of a request as the model server gets it. */
function asSent({
  tool_calls,
  ...message
}: {
  tool_calls?: { id: string; name: string; input: unknown }[];
}) {
  if (tool_calls === undefined) return message;
  const calls = tool_calls.map(({ id, name, input }) => ({
    id,
    type: 'function',
    function: { name, arguments: JSON.stringify(input) },
  }));
  // OpenAI's protocol has no text beside calls as null.
  return { ...message, content: null, tool_calls: calls };
}
