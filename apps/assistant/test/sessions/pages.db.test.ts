import assert from 'node:assert/strict';
import { beforeEach, test } from 'node:test';
import fc from 'fast-check';
import { sql } from 'kysely';
import { type Browser, openAssistant } from '../helpers/assistant.ts';
import { SEVERAL_PEOPLE, signInEverybody } from '../helpers/people.ts';
import { addMessages, addSessions } from './rows.ts';

const assistant = await openAssistant(SEVERAL_PEOPLE);
const { db, instance } = assistant;
const app = await instance();
const { owner, stranger, holder, admin } = await signInEverybody(assistant, app, [
  'svc.sessions.read_all',
]);

beforeEach(async () => {
  await db.deleteFrom('conversation_sessions').execute();
});

/** Follows the links of a list from page to page, and gives each page. */
async function pages<Body>(browser: Browser, url: string): Promise<Body[]> {
  const all: Body[] = [];
  for (let next: string | undefined = url; next !== undefined && all.length < 50;) {
    const answer = await browser.get(next);
    assert.equal(answer.statusCode, 200, answer.body);
    all.push(answer.json());
    next = /^<([^>]+)>; rel="next"$/.exec(String(answer.headers['link']))?.[1];
  }
  return all;
}

type Listed = { session_id: string; last_active: string }[];
const ids = async (browser: Browser, url: string) =>
  (await pages<Listed>(browser, url)).flat().map(({ session_id }) => session_id);

test('times that differ by a microsecond, and equal ones, are in order on all pages', async () => {
  await addSessions(
    db,
    { id: 'b', user_id: 'u-owner', last_active: '2026-01-01T00:00:00.000001Z' },
    { id: 'a', user_id: 'u-owner', last_active: '2026-01-01T00:00:00.000002Z' },
    { id: 'd', user_id: 'u-owner', last_active: '2026-01-01T00:00:00.000001Z' },
    { id: 'c', user_id: 'u-owner', last_active: '2026-01-01T00:00:00.000001Z' },
  );
  for (const limit of [1, 2, 3, 4, 5]) {
    assert.deepEqual(await ids(owner, `/sessions?limit=${limit}`), ['a', 'd', 'c', 'b']);
  }
});

test('rows of an older system come as old as they are known to be, and last of all', async () => {
  await addSessions(
    db,
    { id: 'nothing-a' },
    { id: 'nothing-b' },
    { id: 'created', created_at: '2026-01-02T00:00:00Z' },
    { id: 'active', last_active: '2026-01-03T00:00:00Z' },
    { id: 'new', user_id: 'u-owner', created_at: '2026-01-01', last_active: '2026-01-04' },
  );
  const order = ['new', 'active', 'created', 'nothing-b', 'nothing-a'];
  for (const limit of [1, 2, 100]) {
    assert.deepEqual(await ids(admin, `/sessions?limit=${limit}`), order);
  }
  const [list = []] = await pages<Record<string, unknown>[]>(admin, '/sessions');
  const unknown = {
    session_id: 'nothing-a',
    profile_id: '',
    user_id: null,
    name: '',
    message_count: 0,
    pinned: false,
    created_at: '1970-01-01T00:00:00.000Z',
    last_active: '1970-01-01T00:00:00.000Z',
  };
  assert.deepEqual(list.at(-1), unknown);
  assert.deepEqual(list.at(2)?.['last_active'], '2026-01-02T00:00:00.000Z');
  assert.deepEqual(list.at(1)?.['created_at'], '2026-01-03T00:00:00.000Z');
  const times = list.map((item) => String(item['last_active']));
  assert.deepEqual(times, times.toSorted().toReversed());
});

test('everybody sees what is theirs, permission holders what is somebody’s, admins everything', async () => {
  await addSessions(
    db,
    { id: 'owners', user_id: 'u-owner', last_active: '2026-01-03' },
    { id: 'strangers', user_id: 'u-stranger', last_active: '2026-01-02' },
    { id: 'nobodys', last_active: '2026-01-01' },
  );
  assert.deepEqual(await ids(owner, '/sessions?limit=1'), ['owners']);
  assert.deepEqual(await ids(stranger, '/sessions?limit=1'), ['strangers']);
  assert.deepEqual(await ids(holder, '/sessions?limit=1'), ['owners', 'strangers']);
  assert.deepEqual(await ids(admin, '/sessions?limit=1'), ['owners', 'strangers', 'nobodys']);
  assert.deepEqual(await ids(admin, '/sessions?limit=1&user_id=u-stranger'), ['strangers']);
  assert.deepEqual(await ids(stranger, '/sessions?user_id=u-owner'), []);
});

test('the list is cut at a hundred where nobody says otherwise', async () => {
  await sql`
    insert into conversation_sessions (id, user_id)
    select 's-' || number, 'u-owner' from generate_series(1, 101) as number`.execute(db);
  const all = await pages<Listed>(owner, '/sessions');
  assert.deepEqual(
    all.map(({ length }) => length),
    [100, 1],
  );
});

test('whatever times rows have, pages of any size give each once and in order', async () => {
  const time = fc.option(
    fc.integer({ min: 0, max: 3 }).map((us) => `2026-01-01T00:00:00.00000${us}Z`),
  );
  const rows = fc.array(fc.record({ created_at: time, last_active: time }), { maxLength: 12 });
  await fc.assert(
    fc.asyncProperty(rows, fc.integer({ min: 1, max: 5 }), async (given, limit) => {
      await db.deleteFrom('conversation_sessions').execute();
      await addSessions(db, ...given.map((row, index) => ({ id: `s-${index}`, ...row })));
      const key = (id: string) => {
        const row = given[Number(id.slice(2))];
        return `${row?.last_active ?? row?.created_at ?? ''} ${id}`;
      };
      const seen = await ids(admin, `/sessions?limit=${limit}`);
      assert.equal(seen.length, given.length);
      const keys = seen.map(key);
      assert.deepEqual(keys, keys.toSorted().toReversed());
    }),
    { numRuns: 25 },
  );
});

type Conversation = { messages: { content: string; created_at: string | null }[] };
const contents = (conversations: Conversation[]) =>
  conversations.map(({ messages }) => messages.map(({ content }) => content).join(' '));

test('of a long conversation the latest come first, and the pages before lead back', async () => {
  await addSessions(db, { id: 'long', user_id: 'u-owner' });
  await addMessages(db, 'long', '1', '2', '3', '4', '5');
  const answers = await pages<Conversation>(owner, '/sessions/long?limit=2');
  assert.deepEqual(contents(answers), ['4 5', '2 3', '1']);
});

test('a thousand messages come at once', async () => {
  await addSessions(db, { id: 'long', user_id: 'u-owner' });
  await sql`
    insert into conversation_messages (session_id, role, content)
    select 'long', 'user', number::text from generate_series(1, 1001) as number`.execute(db);
  const [latest, oldest, ...more] = await pages<Conversation & { message_count: number }>(
    owner,
    '/sessions/long',
  );
  assert.deepEqual([latest?.messages.length, latest?.message_count], [1000, 1001]);
  assert.deepEqual([latest?.messages[0]?.content, latest?.messages.at(-1)?.content], ['2', '1001']);
  assert.deepEqual([oldest?.messages.length, more.length], [1, 0]);
});

test('messages stand in order of time, those of one moment as they were added', async () => {
  await addSessions(db, { id: 'old', user_id: 'u-owner' });
  for (const [content, time] of [
    ['third', '2026-01-01T00:00:00.000002Z'],
    ['first', '2026-01-01T00:00:00.000001Z'],
    ['second', '2026-01-01T00:00:00.000001Z'],
    ['unknown', null],
  ]) {
    await sql`
      insert into conversation_messages (session_id, role, content, created_at)
      values ('old', 'user', ${content}, ${time}::timestamptz)`.execute(db);
  }
  for (const limit of [1, 2, 3, 1000]) {
    const answers = await pages<Conversation>(owner, `/sessions/old?limit=${limit}`);
    assert.equal(contents(answers).toReversed().join(' '), 'unknown first second third');
  }
  const [whole] = await pages<Conversation>(owner, '/sessions/old');
  assert.equal(whole?.messages[0]?.created_at, null);
});
