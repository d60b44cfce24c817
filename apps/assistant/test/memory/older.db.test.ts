import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { sql } from 'kysely';
import { openAssistant } from '../helpers/assistant.ts';
import { signInPeople } from './people.ts';

const assistant = await openAssistant({ IDP_USER_MAX_AGE_SECONDS: '3600' });
const { db } = assistant;
const { olena, admin } = await signInPeople(assistant, await assistant.instance());

before(async () => {
  await sql`
    insert into memory_facts (user_id, category, key, value)
    values ('olena', null, 'pets', 'a dog'), ('olena', 'home', 'rooms', null)`.execute(db);
  await sql`insert into memory_summaries (user_id, summary) values ('olena', null)`.execute(db);
  await sql`insert into conversation_sessions (id, user_id) values ('s', 'olena')`.execute(db);
});

type Named = { category: string; key: string; value: string };
const named = (facts: Named[]) =>
  facts.map(({ category, key, value }) => `${category}/${key}=${value}`).toSorted();

test('what an older system left out of a fact is an empty text, wherever it is read', async () => {
  const both = ['/pets=a dog', 'home/rooms='];
  assert.deepEqual(named((await olena.get('/memory/facts')).json()), both);
  assert.deepEqual(named((await admin.get('/admin/memory')).json().facts), both);
  assert.deepEqual(named((await admin.get('/sessions/s/context')).json().memory), both);
});

test('it is found by what it has, and by having no category', async () => {
  for (const [query, expected] of [
    ['q=dog', ['/pets=a dog']],
    ['q=home%20rooms', ['home/rooms=']],
    ['category=', ['/pets=a dog']],
    ['category=home', ['home/rooms=']],
  ] as const) {
    assert.deepEqual(named((await olena.get(`/memory/facts?${query}`)).json()), expected, query);
  }
});

test('a summary without a text is an empty one', async () => {
  assert.equal((await olena.get('/memory/summary')).json().summary, '');
  const [summary] = (await admin.get('/memory/summary?scope=all')).json();
  assert.deepEqual([summary.user_id, summary.summary], ['olena', '']);
});
