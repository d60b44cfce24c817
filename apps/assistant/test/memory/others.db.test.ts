import assert from 'node:assert/strict';
import { beforeEach, test } from 'node:test';
import { sql } from 'kysely';
import { createMemory } from '../../src/memory/service.ts';
import { positions } from '../../src/pages.ts';
import { openAssistant } from '../helpers/assistant.ts';
import { pages, signInPeople } from './people.ts';

const assistant = await openAssistant({ IDP_USER_MAX_AGE_SECONDS: '3600' });
const { db } = assistant;
const people = await signInPeople(assistant, await assistant.instance());
const { olena, nothing } = people;

/** Owners of what is stored; the fact and the summary without one are an older system's. */
const OWNERS = ['olena', 'taras', null];

beforeEach(async () => {
  for (const table of ['memory_facts', 'memory_summaries', 'audit_log'] as const) {
    await db.deleteFrom(table).execute();
  }
  for (const [index, user_id] of OWNERS.entries()) {
    const value = `of ${user_id ?? 'nobody'}`;
    // The later ones are older.
    const updated_at = new Date(Date.UTC(2026, 0, 10 - index));
    await db
      .insertInto('memory_facts')
      .values({
        user_id,
        category: 'c',
        key: `k-${index}`,
        value,
        source_session_id: null,
        updated_at,
      })
      .execute();
    await db
      .insertInto('memory_summaries')
      .values({ user_id, summary: value, updated_at })
      .execute();
  }
});

const readings = () =>
  db
    .selectFrom('audit_log')
    .select(['actor_id', 'user_id', 'details'])
    .where('action', '=', 'others_data_read')
    .execute();

const owners = (rows: { user_id: string | null }[]) => rows.map(({ user_id }) => user_id);

test('an admin sees the facts of all users and those of nobody, which is recorded', async () => {
  const { facts, count } = (await people.admin.get('/admin/memory')).json();
  assert.deepEqual(owners(facts), OWNERS);
  assert.equal(count, 3);
  assert.deepEqual(owners((await people.admin.get('/memory/facts?scope=all')).json()), OWNERS);
  assert.deepEqual(
    await readings(),
    Array.from({ length: 2 }, () => ({
      actor_id: 'admin',
      user_id: null,
      details: { data: 'memory_facts' },
    })),
  );
});

test('who may read all but is no admin does not see what nobody owns', async () => {
  const { facts, count } = (await people.reader.get('/admin/memory')).json();
  assert.deepEqual(owners(facts), ['olena', 'taras']);
  assert.equal(count, 2);
  for (const url of ['/memory/facts?scope=all', '/memory/summary?scope=all']) {
    assert.deepEqual(owners((await people.reader.get(url)).json()), ['olena', 'taras'], url);
  }
  assert.equal((await readings()).length, 3);
});

test('the global view is filtered, and counts what it filters', async () => {
  for (const [query, expected] of [
    ['user_id=taras', ['taras']],
    ['user_id=nobody', []],
    ['q=OF%20ole', ['olena']],
    ['q=nobody', [null]],
    ['category=d', []],
    ['category=c&user_id=olena&q=olena', ['olena']],
  ] as const) {
    const { facts, count } = (await people.admin.get(`/admin/memory?${query}`)).json();
    assert.deepEqual(owners(facts), expected, query);
    assert.equal(count, expected.length, query);
  }
});

test('the global view has pages, each with the count of all', async () => {
  const answers = await pages(people.admin, '/admin/memory?limit=2');
  assert.deepEqual(
    answers.map((page) => [owners(page.json().facts), page.json().count]),
    [
      [['olena', 'taras'], 3],
      [[null], 3],
    ],
  );
});

test("a search in everybody's facts has an end, which says what to do; one in a user's goes through all of theirs", async () => {
  await sql`
    insert into memory_facts (user_id, category, key, value)
    select 'taras', 'many', 'k-' || n, repeat('x y ', 1000) from generate_series(1, 1000) as n`.execute(
    db,
  );
  const memory = createMemory({ db, searchMs: 1 });
  const admin = (await people.admin.get('/auth/me')).json();
  const page = { scope: 'all', limit: 10, after: undefined } as const;
  const asked = { ...page, q: 'nobody' };
  const found = await memory.listAndCountFacts(admin, { ...asked, userId: 'taras' });
  assert.deepEqual(found, { facts: [], count: 0 });
  const searches = [
    () => memory.listAndCountFacts(admin, asked),
    () => memory.listFacts(admin, { ...asked, q: 'nothing' }),
  ];
  if (assistant.engine === 'pglite') {
    const [both, none] = await Promise.all(searches.map((search) => search()));
    assert.partialDeepStrictEqual(both, { facts: [{ value: 'of nobody' }], count: 1 });
    assert.deepEqual(none, []);
  } else {
    for (const search of searches) {
      await assert.rejects(search, {
        code: 'validation_failed',
        errors: [
          {
            path: 'querystring/q',
            message:
              'looks through more facts than 0.001 s suffice for: name a category as well, or at /admin/memory a user_id',
          },
        ],
      });
    }
  }
  // What was ended takes nothing from whoever reads next.
  assert.equal((await memory.listFacts(admin, page)).length, 10);
});

test("reading the facts of one user is recorded with that user, reading one's own is not", async () => {
  await people.admin.get('/admin/memory?user_id=olena');
  assert.deepEqual(await readings(), [
    { actor_id: 'admin', user_id: 'olena', details: { data: 'memory_facts' } },
  ]);
  await db.deleteFrom('audit_log').execute();
  await people.admin.request('PUT', '/memory/facts/c/own', { payload: { value: 'v' } });
  for (const url of ['/memory/facts', '/memory/summary', '/admin/memory?user_id=admin']) {
    assert.equal((await people.admin.get(url)).statusCode, 200);
  }
  await olena.get('/memory/facts');
  assert.deepEqual(await readings(), []);
});

test('the count of a page that shows nothing tells of facts, and is recorded', async () => {
  const beyond = positions.write([Date.UTC(1970, 0, 2) * 1000, '']);
  const search = `/admin/memory?user_id=olena&q=of&cursor=${beyond}`;
  for (const browser of [people.admin, people.reader]) {
    assert.deepEqual((await browser.get(search)).json(), { facts: [], count: 1 });
  }
  assert.deepEqual(
    (await readings()).map(({ actor_id, user_id }) => [actor_id, user_id]),
    [
      ['admin', 'olena'],
      ['reader', 'olena'],
    ],
  );
});

test('a user sees no memory but their own', async () => {
  assert.deepEqual(owners((await olena.get('/memory/facts')).json()), ['olena']);
  assert.deepEqual(owners((await olena.get('/memory/facts?scope=own&q=of')).json()), ['olena']);
  for (const url of ['/memory/facts?scope=all', '/memory/summary?scope=all', '/admin/memory']) {
    for (const browser of [olena, nothing]) {
      const answer = await browser.get(url);
      assert.equal(answer.statusCode, 403, url);
      assert.match(answer.json().detail, /svc\.memory\.read_all/);
    }
  }
  assert.deepEqual(await readings(), []);
});

test('who may read all memory but not their own is told so', async () => {
  for (const url of ['/memory/facts', '/memory/summary']) {
    assert.match((await people.reader.get(url)).json().detail, /svc\.memory\.read_own/);
  }
});

test("one's own summary, and an empty one where there is none", async () => {
  assert.deepEqual((await olena.get('/memory/summary')).json(), {
    user_id: 'olena',
    summary: 'of olena',
    updated_at: '2026-01-10T00:00:00.000Z',
  });
  assert.deepEqual((await people.admin.get('/memory/summary')).json(), {
    user_id: 'admin',
    summary: '',
    updated_at: null,
  });
});

test('the summaries of everybody come in pages', async () => {
  await db
    .updateTable('memory_summaries')
    .set({ updated_at: null as never })
    .where('user_id', '=', 'olena')
    .execute();
  const answers = await pages(people.admin, '/memory/summary?scope=all&limit=1');
  const seen = answers.flatMap((page) => owners(page.json()));
  assert.deepEqual(seen, ['taras', null, 'olena']);
  assert.deepEqual(
    (await readings()).map(({ details }) => details),
    Array.from({ length: 3 }, () => ({ data: 'memory_summaries' })),
  );
});

test('nobody is signed in: nothing is told', async () => {
  const app = await assistant.instance();
  for (const url of ['/memory/facts', '/memory/summary', '/admin/memory']) {
    assert.equal((await app.inject(url)).statusCode, 401, url);
  }
});
