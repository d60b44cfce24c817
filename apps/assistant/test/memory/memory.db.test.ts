import assert from 'node:assert/strict';
import { beforeEach, test } from 'node:test';
import { until } from '@oselya/testing';
import { sql } from 'kysely';
import { createMemoryService } from '../../src/memory/memory.ts';
import { positionCursors } from '../../src/pages.ts';
import { type Browser, openAssistant } from '../helpers/assistant.ts';
import { pages, createPerson, SEVERAL_PEOPLE } from '../helpers/people.ts';
import { createGate } from '../helpers/scripted-model.ts';

const assistant = await openAssistant(SEVERAL_PEOPLE);
const { db } = assistant;
const app = await assistant.createInstance();
const signIn = (id: string, options: Parameters<typeof createPerson>[1]) =>
  assistant.signInUser(app, createPerson(id, options));
const olena = await signIn('olena', { permissions: ['svc.memory.read_own'] });
const taras = await signIn('taras', { permissions: ['svc.memory.read_own'] });
const reader = await signIn('reader', { permissions: ['svc.memory.read_all'] });
const admin = await signIn('admin', { isAdmin: true });

beforeEach(async () => {
  for (const table of ['memory_facts', 'memory_summaries', 'audit_log'] as const) {
    await db.deleteFrom(table).execute();
  }
});

const putFact = (browser: Browser, path: string, payload: object = { value: 'v' }) =>
  browser.request('PUT', `/memory/facts/${path}`, { payload });
const listKeys = (response: { json: () => { key: string }[] }) =>
  response.json().map(({ key }) => key);
const listOwners = (rows: { user_id: string | null }[]) => rows.map(({ user_id }) => user_id);
const encodeCursor = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url');
const listReadEntries = () => assistant.listAuditEntries('others_data_read');

test('A fact is written, replaced, listed and deleted', async () => {
  const putResponse = await putFact(olena, 'home/district', { value: 'Near the park' });
  assert.equal(putResponse.statusCode, 201);
  const fact = putResponse.json();
  assert.partialDeepStrictEqual(fact, {
    user_id: 'olena',
    category: 'home',
    key: 'district',
    value: 'Near the park',
    source_session_id: null,
    updated_at: fact.created_at,
  });

  const replaceResponse = await putFact(olena, 'home/district', { value: 'By the river' });
  assert.equal(replaceResponse.statusCode, 200);
  assert.equal(replaceResponse.json().id, fact.id);
  assert.equal(replaceResponse.json().created_at, fact.created_at);
  assert.ok(replaceResponse.json().updated_at >= fact.updated_at);
  assert.deepEqual((await olena.get('/memory/facts')).json(), [replaceResponse.json()]);

  // Another user's fact may have the same name.
  assert.equal((await putFact(taras, 'home/district')).statusCode, 201);
  const deleteResponse = await olena.request('DELETE', '/memory/facts/home/district');
  assert.deepEqual(deleteResponse.json(), { ok: true });
  const secondResponse = await olena.request('DELETE', '/memory/facts/home/district');
  assert.deepEqual(
    [secondResponse.statusCode, secondResponse.json().code],
    [404, 'fact_not_found'],
  );
  assert.deepEqual((await olena.get('/memory/facts')).json(), []);
  assert.equal((await taras.get('/memory/facts')).json()[0].value, 'v');
});

test('Facts are filtered by category and by words', async () => {
  await putFact(olena, 'home/district', { value: 'Біля ПАРКУ, 100% тихо' });
  await putFact(olena, 'home/rooms', { value: 'three or_four' });
  await putFact(olena, 'work/Office', { value: 'none\\nowhere' });
  for (const [query, expected] of [
    ['category=home', ['rooms', 'district']],
    ['category=hom', []],
    ['q=парку', ['district']],
    ['q=home%20THREE', ['rooms']],
    ['q=100%25', ['district']],
    ['q=_', ['rooms']],
    ['q=%5C', ['Office']],
    ['q=or.four', []],
    ['q=(', []],
    ['q=&category=work', ['Office']],
  ] as const) {
    assert.deepEqual(listKeys(await olena.get(`/memory/facts?${query}`)), expected, query);
  }
  const response = await olena.get('/memory/facts?q=a%20b%20c%20d%20e%20f');
  assert.deepEqual(response.json().errors, [
    { path: 'querystring/q', message: 'must have at most 5 words' },
  ]);
});

test('Searches of a user run one at a time, and too many concurrent searches are rejected', async () => {
  await putFact(olena, 'home/district');
  await putFact(taras, 'home/district');
  const user = (await olena.get('/auth/me')).json();
  const otherUser = (await taras.get('/auth/me')).json();
  const runningQueries = new Set<object>();
  let maxConcurrency = 0;
  const queryGate = createGate();
  const slowDb = db.withPlugin({
    transformQuery: ({ node, queryId }) => {
      runningQueries.add(queryId);
      maxConcurrency = Math.max(maxConcurrency, runningQueries.size);
      return node;
    },
    transformResult: async ({ result, queryId }) => {
      await queryGate.opened;
      runningQueries.delete(queryId);
      return result;
    },
  });
  const memory = createMemoryService({ db: slowDb });
  const query = { scope: 'own', limit: 10, after: undefined } as const;
  const factPromises = Array.from({ length: 7 }, () =>
    memory.listFacts(user, { ...query, q: 'v' }),
  );
  const settledAnswers = Promise.allSettled(factPromises);
  await assert.rejects(factPromises[5] ?? Promise.resolve(), {
    code: 'rate_limited',
    headers: {
      'ratelimit-limit': '5',
      'ratelimit-remaining': '0',
      'ratelimit-reset': '1',
      'retry-after': '1',
    },
  });
  await until(() => runningQueries.size > 0);
  assert.equal(maxConcurrency, 1);
  const otherUserSearch = memory.listFacts(otherUser, { ...query, q: 'v' });
  const listing = memory.listFacts(user, query);
  queryGate.open();
  assert.deepEqual([(await otherUserSearch).length, (await listing).length], [1, 1]);
  const codes = (await settledAnswers).map((result) =>
    result.status === 'fulfilled' ? result.value.length : result.reason.code,
  );
  assert.deepEqual(codes, [1, 1, 1, 1, 1, 'rate_limited', 'rate_limited']);
  assert.equal((await memory.listFacts(user, { ...query, q: 'v' })).length, 1);
});

test('Pages list each fact once, facts without a time last', async () => {
  // Two rows a microsecond apart, two with the same time, and two without a time.
  const times = [null, null, '2026-01-01 10:00:00.000001', '2026-01-01 10:00:00.000002'];
  const rows = [...times, '2026-01-02', '2026-01-02'].map((time, index) => ({
    user_id: 'olena',
    category: 'c',
    key: `k-${index}`,
    value: 'v',
    source_session_id: null,
    created_at: sql<Date>`${time}::timestamptz`,
    updated_at: sql<Date>`null::timestamptz`,
  }));
  await db.insertInto('memory_facts').values(rows).execute();

  const responses = await pages(olena, '/memory/facts?limit=1&q=v');
  assert.ok(responses.every((page) => listKeys(page).length <= 1));
  const seenKeys = responses.flatMap(listKeys);
  assert.equal(seenKeys.length, rows.length);
  assert.deepEqual(seenKeys.slice(0, 2).toSorted(), ['k-4', 'k-5']);
  assert.deepEqual(seenKeys.slice(2, 4), ['k-3', 'k-2']);
});

test('A user has at most 2,000 facts', async () => {
  await sql`
    insert into memory_facts (user_id, category, key, value)
    select 'olena', 'many', 'k-' || n, 'v' from generate_series(1, 2000) as n`.execute(db);
  const rejectedResponse = await putFact(olena, 'home/district');
  assert.equal(rejectedResponse.statusCode, 409);
  assert.equal(rejectedResponse.json().code, 'memory_full');
  assert.match(rejectedResponse.json().detail, /2000 facts/);
  assert.equal((await putFact(olena, 'many/k-1')).statusCode, 200);
  assert.equal((await putFact(taras, 'home/district')).statusCode, 201);
  await olena.request('DELETE', '/memory/facts/many/k-1');
  const paths = ['home/a', 'home/b', 'home/c'];
  const responses = await Promise.all(paths.map((path) => putFact(olena, path)));
  const statuses = responses.map(({ statusCode }) => statusCode).toSorted((a, b) => a - b);
  assert.deepEqual(statuses, [201, 409, 409]);
});

/** Stores a fact and a summary for each of two users and for no owner. Each pair is older than the previous one. */
async function addOwnedRows() {
  for (const [index, user_id] of ['olena', 'taras', null].entries()) {
    const value = `of ${user_id ?? 'no-owner'}`;
    const updated_at = new Date(Date.UTC(2026, 0, 10 - index));
    const fact = { user_id, category: 'c', key: `k-${index}`, value, source_session_id: null };
    await db
      .insertInto('memory_facts')
      .values({ ...fact, updated_at })
      .execute();
    const summary = { user_id, summary: value, updated_at };
    await db.insertInto('memory_summaries').values(summary).execute();
  }
}

test('Admins see all memory, readers only memory with an owner, and reads are recorded', async () => {
  await addOwnedRows();
  for (const [browser, actor_id, expected] of [
    [admin, 'admin', ['olena', 'taras', null]],
    [reader, 'reader', ['olena', 'taras']],
  ] as const) {
    const { facts, count } = (await browser.get('/admin/memory')).json();
    assert.deepEqual([listOwners(facts), count], [expected, expected.length]);
    for (const url of ['/memory/facts?scope=all', '/memory/summary?scope=all']) {
      assert.deepEqual(listOwners((await browser.get(url)).json()), expected, url);
    }
    const data = ['memory_facts', 'memory_facts', 'memory_summaries'];
    const expectedReadEntries = data.map((resource) => ({
      actor_id,
      user_id: null,
      details: { data: resource },
    }));
    assert.deepEqual(await listReadEntries(), expectedReadEntries);
    await db.deleteFrom('audit_log').execute();
  }

  await admin.get('/admin/memory?user_id=olena');
  const readEntry = { actor_id: 'admin', user_id: 'olena', details: { data: 'memory_facts' } };
  assert.deepEqual(await listReadEntries(), [readEntry]);
  // The count reveals facts that the page does not show, so the read is recorded.
  const lastCursor = positionCursors.write([Date.UTC(1970, 0, 2) * 1000, '']);
  const search = `/admin/memory?user_id=olena&q=of&cursor=${lastCursor}`;
  assert.deepEqual((await admin.get(search)).json(), { facts: [], count: 1 });
  assert.deepEqual(await listReadEntries(), [readEntry, readEntry]);

  await db.deleteFrom('audit_log').execute();
  await putFact(admin, 'c/own');
  for (const url of ['/memory/facts', '/memory/summary', '/admin/memory?user_id=admin']) {
    assert.equal((await admin.get(url)).statusCode, 200);
  }
  await olena.get('/memory/facts');
  assert.deepEqual(await listReadEntries(), [], "a user's own memory");
});

test('The global view is filtered, counted and paged', async () => {
  await addOwnedRows();
  for (const [query, expected] of [
    ['user_id=taras', ['taras']],
    ['user_id=unknown', []],
    ['q=OF%20ole', ['olena']],
    ['q=no-owner', [null]],
    ['category=d', []],
    ['category=c&user_id=olena&q=olena', ['olena']],
  ] as const) {
    const { facts, count } = (await admin.get(`/admin/memory?${query}`)).json();
    assert.deepEqual(listOwners(facts), expected, query);
    assert.equal(count, expected.length, query);
  }
  const responses = await pages(admin, '/admin/memory?limit=2');
  assert.deepEqual(
    responses.map((page) => [listOwners(page.json().facts), page.json().count]),
    [
      [['olena', 'taras'], 3],
      [[null], 3],
    ],
  );
});

test('Only a search in the facts of all users has a time limit', async () => {
  await addOwnedRows();
  await sql`
    insert into memory_facts (user_id, category, key, value)
    select 'taras', 'many', 'k-' || n, repeat('x y ', 1000) from generate_series(1, 1000) as n`.execute(
    db,
  );
  const memory = createMemoryService({ db, searchTimeoutMs: 1 });
  const user = (await admin.get('/auth/me')).json();
  const pageQuery = { scope: 'all', limit: 10, after: undefined } as const;
  const query = { ...pageQuery, q: 'no-owner' };
  const response = await memory.listAndCountFacts(user, { ...query, userId: 'taras' });
  assert.deepEqual(response, { facts: [], count: 0 });
  const searches = [
    () => memory.listAndCountFacts(user, query),
    () => memory.listFacts(user, { ...query, q: 'nothing' }),
  ];
  if (assistant.engine === 'pglite') {
    const [countedFacts, emptyResult] = await Promise.all(searches.map((search) => search()));
    const { facts, count } = countedFacts as { facts: { value: string }[]; count: number };
    assert.deepEqual([facts.map(({ value }) => value), count], [['of no-owner'], 1]);
    assert.deepEqual(emptyResult, []);
  } else {
    for (const search of searches) {
      await assert.rejects(search, {
        code: 'validation_failed',
        errors: [
          {
            path: 'querystring/q',
            message:
              'takes longer than 0.001 s in this many facts: name a category as well, or at /admin/memory a user_id',
          },
        ],
      });
    }
  }
  // The connection of the cancelled search serves the next reader.
  assert.equal((await memory.listFacts(user, pageQuery)).length, 10);
});

test('Summaries are empty by default, and the list for all users has pages', async () => {
  await addOwnedRows();
  assert.deepEqual((await olena.get('/memory/summary')).json(), {
    user_id: 'olena',
    summary: 'of olena',
    updated_at: '2026-01-10T00:00:00.000Z',
  });
  const emptySummary = { user_id: 'admin', summary: '', updated_at: null };
  assert.deepEqual((await admin.get('/memory/summary')).json(), emptySummary);
  const updated_at = sql<Date>`null::timestamptz`;
  const summaries = db.updateTable('memory_summaries').where('user_id', '=', 'olena');
  await summaries.set({ updated_at }).execute();
  const responses = await pages(admin, '/memory/summary?scope=all&limit=1');
  const seenOwners = responses.flatMap((page) => listOwners(page.json()));
  assert.deepEqual(seenOwners, ['taras', null, 'olena']);
});

test('Names and values can be any text that PostgreSQL stores', async () => {
  for (const name of ['a/b', '100%', '?#&=', '%_\\', '\n', '__proto__', '🏠'.repeat(100)]) {
    const path = `${encodeURIComponent(name)}/${encodeURIComponent(name)}`;
    const putResponse = (await putFact(olena, path)).json();
    assert.deepEqual([putResponse.category, putResponse.key], [name, name]);
    const response = await olena.get(`/memory/facts?category=${encodeURIComponent(name)}`);
    assert.deepEqual(listKeys(response), [name]);
    assert.equal((await olena.request('DELETE', `/memory/facts/${path}`)).statusCode, 200);
  }
  assert.equal((await putFact(olena, 'a/half', { value: 'a\ud83db' })).json().value, 'a\ufffdb');
  for (const value of [undefined, 7, 'a\0b', 'x'.repeat(4001)]) {
    assert.equal((await putFact(olena, 'a/b', { value })).statusCode, 422);
  }
  for (const [path, status] of [
    ['a/%00', 422],
    ['a/', 422],
    [`${encodeURI('🏠'.repeat(101))}/b`, 422],
    ['a/%', 400],
  ] as const) {
    assert.equal((await putFact(olena, path)).statusCode, status, path);
  }
});

test('Invalid queries are rejected, and extreme cursors are harmless', async () => {
  const invalidQueries = [
    'limit=0',
    'limit=1001',
    'limit=x',
    'cursor=',
    'cursor=x',
    ...[[1e300, 'a'], [0.5, 'a'], ['1', 'a'], [1, 'a\0'], [1]].map(
      (value) => `cursor=${encodeCursor(value)}`,
    ),
  ];
  const urls = [
    ...invalidQueries.map((query) => `/memory/summary?scope=all&${query}`),
    ...[...invalidQueries, 'q=%00', `q=${'x'.repeat(101)}`].map(
      (query) => `/admin/memory?${query}`,
    ),
    '/memory/facts?scope=everything',
    '/memory/facts?category=%00',
    '/admin/memory?user_id=',
  ];
  for (const url of urls) {
    const response = await admin.get(url);
    assert.equal(response.statusCode, 422, url);
    assert.match(response.json().errors[0].path, /^query(string)?\//);
  }
  for (const time of [Number.MAX_SAFE_INTEGER, -Number.MAX_SAFE_INTEGER, null]) {
    const response = await admin.get(`/admin/memory?cursor=${encodeCursor([time, "'"])}`);
    assert.equal(response.statusCode, 200, response.body);
  }
});
