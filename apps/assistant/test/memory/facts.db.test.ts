import assert from 'node:assert/strict';
import { beforeEach, test } from 'node:test';
import { sql } from 'kysely';
import { createMemory } from '../../src/memory/service.ts';
import { type Browser, openAssistant } from '../helpers/assistant.ts';
import { gate } from '../helpers/scripted-model.ts';
import { until } from '../helpers/until.ts';
import { pages, signInPeople } from './people.ts';

const assistant = await openAssistant({ IDP_USER_MAX_AGE_SECONDS: '3600' });
const { db } = assistant;
const app = await assistant.instance();
const { olena, taras, nothing } = await signInPeople(assistant, app);

beforeEach(() => db.deleteFrom('memory_facts').execute());

const put = (browser: Browser, path: string, value = 'v') =>
  browser.request('PUT', `/memory/facts/${path}`, { payload: { value } });
const keys = (answer: { json: () => { key: string }[] }) => answer.json().map(({ key }) => key);

test('a fact is written, replaced, listed and deleted', async () => {
  const written = await put(olena, 'home/district', 'Near the park');
  assert.equal(written.statusCode, 201);
  const fact = written.json();
  assert.deepEqual(
    { ...fact, id: typeof fact.id, created_at: null, updated_at: null },
    {
      id: 'string',
      user_id: 'olena',
      category: 'home',
      key: 'district',
      value: 'Near the park',
      source_session_id: null,
      created_at: null,
      updated_at: null,
    },
  );
  assert.equal(new Date(fact.created_at).toISOString(), fact.created_at);
  assert.equal(fact.updated_at, fact.created_at);

  const replaced = await put(olena, 'home/district', 'By the river');
  assert.equal(replaced.statusCode, 200);
  assert.equal(replaced.json().id, fact.id);
  assert.equal(replaced.json().created_at, fact.created_at);
  assert.ok(replaced.json().updated_at >= fact.updated_at);
  assert.deepEqual((await olena.get('/memory/facts')).json(), [replaced.json()]);

  const deleted = await olena.request('DELETE', '/memory/facts/home/district');
  assert.deepEqual(deleted.json(), { ok: true });
  const again = await olena.request('DELETE', '/memory/facts/home/district');
  assert.equal(again.statusCode, 404);
  assert.equal(again.json().code, 'fact_not_found');
  assert.deepEqual((await olena.get('/memory/facts')).json(), []);
});

test('facts of one name are different facts of different users', async () => {
  await put(olena, 'home/district', 'hers');
  assert.equal((await put(taras, 'home/district', 'his')).statusCode, 201);
  assert.equal((await taras.request('DELETE', '/memory/facts/home/district')).statusCode, 200);
  assert.equal((await olena.get('/memory/facts')).json()[0].value, 'hers');
  assert.deepEqual((await taras.get('/memory/facts')).json(), []);
});

test('facts are filtered by category and by words', async () => {
  await put(olena, 'home/district', 'Біля ПАРКУ, 100% тихо');
  await put(olena, 'home/rooms', 'three or_four');
  await put(olena, 'work/Office', 'none\\nowhere');
  for (const [query, expected] of [
    ['category=home', ['rooms', 'district']],
    ['category=hom', []],
    ['q=парку', ['district']],
    ['q=TRI%20біля', ['district']],
    ['q=home%20THREE', ['rooms']],
    ['q=park%20біля', []],
    ['q=office', ['Office']],
    ['q=100%25', ['district']],
    ['q=%25', ['district']],
    ['q=_', ['rooms']],
    ['q=%5C', ['Office']],
    ["q='", []],
    ['q=or.four', []],
    ['q=(', []],
    ['q=THREE%20or_FOUR%20ROOMS%20home%20r', ['rooms']],
    ['q=home%20home%20home%20home%20home%20home', ['rooms', 'district']],
    ['q=&category=work', ['Office']],
    ['q=%20%20', ['Office', 'rooms', 'district']],
  ] as const) {
    assert.deepEqual(keys(await olena.get(`/memory/facts?${query}`)), expected, query);
  }
});

test('a search has at most five words', async () => {
  const answer = await olena.get('/memory/facts?q=a%20b%20c%20d%20e%20f');
  assert.equal(answer.statusCode, 422);
  assert.deepEqual(answer.json().errors, [
    { path: 'querystring/q', message: 'must have at most 5 words' },
  ]);
});

test('searches of a user follow one another, and of many at once the most are told to come back', async () => {
  await put(olena, 'home/district');
  await put(taras, 'home/district');
  const user = (await olena.get('/auth/me')).json();
  const other = (await taras.get('/auth/me')).json();
  const underWay = new Set<object>();
  let most = 0;
  const opened = gate();
  const slow = db.withPlugin({
    transformQuery: ({ node, queryId }) => {
      underWay.add(queryId);
      most = Math.max(most, underWay.size);
      return node;
    },
    transformResult: async ({ result, queryId }) => {
      await opened.opened;
      underWay.delete(queryId);
      return result;
    },
  });
  const memory = createMemory({ db: slow });
  const asked = { scope: 'own', limit: 10, after: undefined } as const;
  const answers = Array.from({ length: 7 }, () => memory.listFacts(user, { ...asked, q: 'v' }));
  const settled = Promise.allSettled(answers);
  await assert.rejects(answers[5] ?? Promise.resolve(), {
    code: 'rate_limited',
    headers: {
      'ratelimit-limit': '5',
      'ratelimit-remaining': '0',
      'ratelimit-reset': '1',
      'retry-after': '1',
    },
  });
  await until(() => underWay.size > 0);
  assert.equal(most, 1);
  const others = memory.listFacts(other, { ...asked, q: 'v' });
  const unsearched = memory.listFacts(user, asked);
  opened.open();
  assert.deepEqual([(await others).length, (await unsearched).length], [1, 1]);
  const codes = (await settled).map((one) =>
    one.status === 'fulfilled' ? one.value.length : one.reason.code,
  );
  assert.deepEqual(codes, [1, 1, 1, 1, 1, 'rate_limited', 'rate_limited']);
  assert.equal((await memory.listFacts(user, { ...asked, q: 'v' })).length, 1);
});

test('pages follow one another, those without a time come last', async () => {
  // Two a microsecond apart, two of one moment, two without a time.
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

  for (const limit of [1, 2, 4]) {
    const answers = await pages(olena, `/memory/facts?limit=${limit}&q=v`);
    assert.ok(answers.every((page) => keys(page).length <= limit));
    const seen = answers.flatMap(keys);
    assert.equal(seen.length, rows.length, `limit ${limit}`);
    assert.deepEqual(seen.slice(0, 2).toSorted(), ['k-4', 'k-5']);
    assert.deepEqual(seen.slice(2, 4), ['k-3', 'k-2']);
    assert.deepEqual(seen.slice(4).toSorted(), ['k-0', 'k-1']);
  }
});

test('the same fact written many times at once is one row, new once', async () => {
  const answers = await Promise.all(
    Array.from({ length: 20 }, (_, index) => put(olena, 'home/district', `value ${index}`)),
  );
  assert.ok(answers.every(({ statusCode }) => statusCode === 200 || statusCode === 201));
  assert.equal(answers.filter(({ statusCode }) => statusCode === 201).length, 1);
  assert.equal((await olena.get('/memory/facts')).json().length, 1);
});

test('one fact too many is refused, those that are there can be replaced', async () => {
  await sql`
    insert into memory_facts (user_id, category, key, value)
    select 'olena', 'many', 'k-' || n, 'v' from generate_series(1, 2000) as n`.execute(db);
  const refused = await put(olena, 'home/district');
  assert.equal(refused.statusCode, 409);
  assert.equal(refused.json().code, 'memory_full');
  assert.match(refused.json().detail, /2000 facts/);
  assert.equal((await put(olena, 'many/k-1')).statusCode, 200);
  assert.equal((await put(taras, 'home/district')).statusCode, 201);
  await olena.request('DELETE', '/memory/facts/many/k-1');
  assert.equal((await put(olena, 'home/district')).statusCode, 201);
});

test('facts that are written at the same moment cannot pass the bound together', async () => {
  const memory = createMemory({ db, maxFacts: 5 });
  const user = (await olena.get('/auth/me')).json();
  const written = await Promise.allSettled(
    Array.from({ length: 20 }, (_, index) =>
      memory.putFact(user, { category: 'c', key: `k-${index}`, value: 'v' }),
    ),
  );
  assert.equal(written.filter(({ status }) => status === 'fulfilled').length, 5);
  for (const one of written) {
    if (one.status === 'rejected') assert.equal(one.reason.code, 'memory_full');
  }
  assert.equal((await olena.get('/memory/facts')).json().length, 5);
});

test('who lacks the permission is refused', async () => {
  for (const [method, url, payload] of [
    ['GET', '/memory/facts', undefined],
    ['GET', '/memory/summary', undefined],
    ['PUT', '/memory/facts/a/b', { value: 'v' }],
    ['DELETE', '/memory/facts/a/b', undefined],
  ] as const) {
    const answer = await nothing.request(method, url, payload && { payload });
    assert.equal(answer.statusCode, 403, `${method} ${url}`);
    assert.equal(answer.json().code, 'permission_missing');
    assert.match(answer.json().detail, /svc\.memory\.read_own/);
  }
});

test('a page of another site cannot write or delete', async () => {
  await put(olena, 'a/b');
  const headers = { 'sec-fetch-site': 'cross-site' };
  for (const method of ['PUT', 'DELETE'] as const) {
    const options = { headers, ...(method === 'PUT' && { payload: { value: 'other' } }) };
    const answer = await olena.request(method, '/memory/facts/a/b', options);
    assert.equal(answer.json().code, 'cross_site_request');
  }
  assert.equal((await olena.get('/memory/facts')).json()[0].value, 'v');
});
