import assert from 'node:assert/strict';
import { test } from 'node:test';
import { until } from '@oselya/testing';
import { sql } from 'kysely';
import { createMemoryService } from '../../src/memory/memory.ts';
import { exportOwnData } from '../../src/own-data/export.ts';
import { registerOwnDataRoutes } from '../../src/own-data/routes.ts';
import { openStage, openRawClient } from '../conversations/stage.ts';
import { createPerson, createUser } from '../helpers/people.ts';
import { createGate } from '../helpers/scripted-model.ts';
import { createUserServer } from '../helpers/servers.ts';

const stage = await openStage();
const { app, db, model, url } = stage;
// The instance starts before any turn, because startup on the embedded database aborts turns in progress.
const secondUrl = await stage.startInstance();
const olena = await stage.signInUser(app, createPerson('u-olena'));
const taras = await stage.signInUser(app, createPerson('u-taras'));

/** One row more than an export page. */
const ROW_COUNT = 201;

/** Number of lines of a file, which an export reads in several slices. */
const FILE_LINES = 10_000;

/** Adds rows of every kind for a user, with `count` sessions that each have a message and a step. */
async function addRows(userId: string, mark: string, count: number): Promise<void> {
  const ids = Array.from({ length: count }, (_, index) => `${userId}-${index}`);
  const session_id = `${userId}-0`;
  await db
    .insertInto('conversation_sessions')
    .values(ids.map((id) => ({ id, user_id: userId, profile_id: 'default', name: mark })))
    .execute();
  const messages = ids.map((id) => ({ session_id: id, role: 'user', content: mark }));
  await db.insertInto('conversation_messages').values(messages).execute();
  const step = { turn_id: 't', kind: 'tool', title: mark, status: 'done' };
  const steps = ids.map((id) => ({ session_id: id, ...step }));
  await db.insertInto('agent_steps').values(steps).execute();
  const content = Buffer.from(`${mark} file\n`.repeat(FILE_LINES));
  const file = { size_bytes: content.length, sha256: '', content, media_type: null };
  await db
    .insertInto('session_files')
    .values({ session_id, name: 'notes.txt', ...file })
    .execute();
  await db
    .insertInto('memory_facts')
    .values({ user_id: userId, category: 'wishes', key: 'city', value: mark })
    .execute();
  await db.insertInto('memory_summaries').values({ user_id: userId, summary: mark }).execute();
  await db.insertInto('user_settings').values({ user_id: userId, currency: 'UAH' }).execute();
  const turn = { session_id, user_id: userId, question_id: 'q', status: 'completed' } as const;
  const now = new Date();
  const { id: turn_id } = await db
    .insertInto('chat_turns')
    .values({ ...turn, lease_until: now, finished_at: now })
    .returning('id')
    .executeTakeFirstOrThrow();
  await db.insertInto('chat_turn_events').values({ turn_id, last_seq: 1, events: '[]' }).execute();
  await db
    .insertInto('conversation_summaries')
    .values({ session_id, summary: mark, through_sent_us: null, through_position: 0, revision: 1 })
    .execute();
  const { id: search_id } = await db
    .insertInto('saved_searches')
    .values({ user_id: userId, session_id, name: mark, search: '{}', every_minutes: 60 })
    .returning('id')
    .executeTakeFirstOrThrow();
  await db
    .insertInto('saved_search_hits')
    .values({ search_id, listing_id: 7, kind: 'new', old_price: null })
    .execute();
  await db
    .insertInto('listing_marks')
    .values({ user_id: userId, listing_id: 7, note: mark })
    .execute();
  const { id: board_id } = await db
    .insertInto('boards')
    .values({ name: mark })
    .returning('id')
    .executeTakeFirstOrThrow();
  const otherId = userId === 'u-olena' ? 'u-taras' : 'u-maria';
  for (const [member, role] of [
    [userId, 'owner'],
    [otherId, 'viewer'],
  ] as const) {
    await db.insertInto('board_members').values({ board_id, user_id: member, role }).execute();
  }
  const item = { board_id, listing_id: 7 };
  await db
    .insertInto('board_items')
    .values({ ...item, position: 1, note: mark })
    .execute();
  await db
    .insertInto('board_verdicts')
    .values({ ...item, user_id: userId, verdict: 'yes' })
    .execute();
  await db
    .insertInto('board_comments')
    .values({ ...item, user_id: userId, text: mark })
    .execute();
}

/** Counts the rows of all tables with user data. */
async function countRows(): Promise<Record<string, number>> {
  const tables = [
    'conversation_sessions',
    'conversation_messages',
    'conversation_summaries',
    'chat_turns',
    'chat_turn_events',
    'agent_steps',
    'session_files',
    'memory_facts',
    'memory_summaries',
    'user_settings',
    'saved_searches',
    'saved_search_hits',
    'listing_marks',
    'boards',
    'board_members',
    'board_items',
    'board_verdicts',
    'board_comments',
  ] as const;
  const counts: Record<string, number> = {};
  for (const table of tables) {
    const { rows } = await sql`select from ${sql.table(table)}`.execute(db);
    counts[table] = rows.length;
  }
  return counts;
}

await addRows('u-taras', 'taras-said', 2);
const othersCounts = await countRows();
for (const [table, count] of Object.entries(othersCounts)) assert.ok(count > 0, table);

/** Database that changes the order of sessions and facts after each full page. */
const changingDb = db.withPlugin({
  transformQuery: ({ node }) => node,
  async transformResult({ result }) {
    if (result.rows.length >= ROW_COUNT - 1) {
      for (const [table, column] of [
        ['conversation_sessions', 'last_active'],
        ['memory_facts', 'updated_at'],
      ] as const) {
        await sql`
          update ${sql.table(table)} set ${sql.ref(column)} = clock_timestamp() where id = (
            select id from ${sql.table(table)} where user_id = 'u-olena'
            order by ${sql.ref(column)}, id limit 1)`.execute(db);
      }
    }
    return result;
  },
});

test('An export has all data of the user once and no other data, under concurrent writes', async () => {
  await addRows('u-olena', 'olena-said', ROW_COUNT);
  const numbers = Array.from({ length: ROW_COUNT }, (_, index) => index);
  const facts = numbers.slice(1).map((index) => ({ key: `key ${index}`, value: 'olena-said' }));
  await db
    .insertInto('memory_facts')
    .values(facts.map((fact) => ({ user_id: 'u-olena', category: 'wishes', ...fact })))
    .execute();
  await db
    .insertInto('conversation_messages')
    .values(numbers.map((n) => ({ session_id: 'u-olena-0', role: 'user', content: `text ${n}` })))
    .execute();
  const auditEntry = { action: 'noted', actor_id: null, user_id: 'u-olena' };
  await db
    .insertInto('audit_log')
    .values(numbers.map((n) => ({ ...auditEntry, details: JSON.stringify({ n }) })))
    .execute();
  const body = (await (await exportOwnData(changingDb, 'u-olena', new Date())).toArray()).join('');
  assert.ok(!body.includes('taras-said'));
  assert.ok(!body.includes(olena.sid));
  const document = JSON.parse(body);
  assert.equal(document.user.id, 'u-olena');
  assert.equal(document.sign_ins.length, 1);
  assert.equal(document.settings.currency, 'UAH');
  assert.equal(document.memory.summary.summary, 'olena-said');
  for (const [rows, name] of [
    [document.memory.facts, 'key'],
    [document.sessions, 'session_id'],
  ] as const) {
    const names = rows.map((row: Record<string, string>) => row[name]);
    assert.deepEqual([names.length, new Set(names).size], [ROW_COUNT, ROW_COUNT], name);
  }
  assert.deepEqual(
    [document.marks, document.boards, document.board_comments].map((rows) => rows.length),
    [1, 1, 1],
  );
  assert.partialDeepStrictEqual(document.boards[0].items, [
    { listing_id: 7, verdict: 'yes', note: 'olena-said' },
  ]);
  const count = (name: string) =>
    document.sessions.reduce(
      (sum: number, session: Record<string, unknown[]>) => sum + (session[name] ?? []).length,
      0,
    );
  assert.deepEqual(['messages', 'steps', 'files'].map(count), [2 * ROW_COUNT, ROW_COUNT, 1]);
  assert.equal(
    document.audit.filter(({ action }: typeof auditEntry) => action === 'noted').length,
    ROW_COUNT,
  );
  const [file] = document.sessions.flatMap(({ files }: { files: object[] }) => files);
  const content = Buffer.from('olena-said file\n'.repeat(FILE_LINES));
  assert.ok(file.content_base64 === content.toString('base64'));
});

test('An export is an attachment, and recorded', async () => {
  const response = await taras.get('/me/export');
  assert.equal(response.statusCode, 200);
  assert.match(String(response.headers['content-disposition']), /^attachment; filename="oselya-/);
  const actions = response.json().audit.map(({ action }: { action: string }) => action);
  assert.deepEqual(actions, ['own_data_exported', 'signed_in']);
});

test('A deletion removes all data of the user and keeps the sign-in and other users', async () => {
  const response = await olena.request('DELETE', '/me/data');
  assert.deepEqual(response.json(), {
    ok: true,
    deleted: {
      sessions: ROW_COUNT,
      saved_searches: 1,
      facts: ROW_COUNT,
      summaries: 1,
      settings: 1,
      marks: 1,
      boards: 1,
      board_comments: 1,
    },
  });
  assert.deepEqual(await countRows(), othersCounts);
  assert.equal((await olena.get('/auth/me')).statusCode, 200);
  // An answer in progress cannot remember anything for a deleted session.
  const lateFact = { category: 'wishes', key: 'city', value: 'x', sourceSessionId: 'u-olena-0' };
  const lateWrite = createMemoryService({ db }).putFact(createUser('u-olena'), lateFact);
  await assert.rejects(lateWrite, { code: 'session_not_found' });
  const emptyCounts = {
    sessions: 0,
    saved_searches: 0,
    facts: 0,
    summaries: 0,
    settings: 0,
    marks: 0,
    boards: 0,
    board_comments: 0,
  };
  assert.deepEqual((await olena.request('DELETE', '/me/data')).json().deleted, emptyCounts);
  const { audit, ...remainingData } = (await olena.get('/me/export')).json();
  assert.deepEqual([remainingData.sessions, remainingData.memory.facts], [[], []]);
  const deletions = audit.filter(({ action }: { action: string }) => action === 'own_data_deleted');
  assert.equal(deletions.length, 1);
});

test('A deletion ends an answer in progress at every process', async (t) => {
  const sid = await stage.signIn('u-iryna');
  const iryna = await openRawClient(t, { url, sid });
  const id = await iryna.newSession();
  const readGate = createGate();
  t.after(readGate.open);
  const wish = { category: 'wishes', key: 'city', value: 'Львів' };
  model.scripts.push(
    { tools: [{ name: 'remember_fact', arguments: wish }] },
    { words: ['Ще ', readGate.opened, 'дещо'] },
  );
  await iryna.say(id, 'Запамʼятай');
  await iryna.waitForText('Ще ');
  const secondClient = await openRawClient(t, { url: secondUrl, sid });
  await secondClient.ask({ type: 'session.open', session_id: id });
  await secondClient.waitForText('Ще ');
  const cookies = { svc_auth_session: sid };
  const deleteResponse = await app.inject({ method: 'DELETE', url: '/me/data', cookies });
  assert.partialDeepStrictEqual(deleteResponse.json(), { deleted: { sessions: 1, facts: 1 } });
  for (const rawClient of [iryna, secondClient]) {
    const { problem } = await rawClient.waitFor('error');
    assert.equal(problem?.code, 'session_not_found');
  }
  readGate.open();
  for (const rawClient of [iryna, secondClient]) {
    await rawClient.ask({ type: 'ping' });
    assert.deepEqual(
      [rawClient.getFrames('error').length, rawClient.getFrames('message.completed').length],
      [1, 0],
    );
  }
  assert.deepEqual(await countRows(), othersCounts);
});

test('Settings have defaults, are changed one by one, and belong to one user', async () => {
  const maria = await stage.signInUser(app, createPerson('u-maria'));
  const defaults = { language: null, theme: 'auto', single_letter_keys: true, currency: null };
  assert.deepEqual((await maria.get('/me/settings')).json(), defaults);
  const changeSettings = (payload: object) => maria.request('PATCH', '/me/settings', { payload });
  const changes = { language: 'uk', currency: 'USD', single_letter_keys: false };
  assert.deepEqual((await changeSettings(changes)).json(), { ...defaults, ...changes });
  const settings = { ...defaults, ...changes, language: null, theme: 'dark' };
  const response = await changeSettings({ language: null, theme: 'dark' });
  assert.deepEqual(response.json(), settings);
  for (const [invalidChanges, path] of [
    [{}, 'body'],
    [{ font: 'large' }, 'body'],
    [{ language: 'pl' }, 'body/language'],
    [{ theme: null }, 'body/theme'],
    [{ single_letter_keys: 'no' }, 'body/single_letter_keys'],
    [{ currency: 'usd' }, 'body/currency'],
  ] as const) {
    const rejection = await changeSettings(invalidChanges);
    assert.equal(rejection.statusCode, 422, rejection.body);
    assert.equal(rejection.json().errors[0].path, path);
  }
  assert.deepEqual((await maria.get('/me/settings')).json(), settings);
  assert.deepEqual((await taras.get('/me/settings')).json(), { ...defaults, currency: 'UAH' });
});

/**
 * Starts a server that permits one concurrent export, and takes the user from the header `x-user`.
 * @param beforeResult Awaited before each query result.
 */
async function startServer(beforeResult: () => Promise<void>): Promise<string> {
  const server = await createUserServer();
  const gatedDb = db.withPlugin({
    transformQuery: ({ node }) => node,
    transformResult: async ({ result }) => {
      await beforeResult();
      return result;
    },
  });
  registerOwnDataRoutes(server, gatedDb, { maxExports: 1 });
  return server.listen({ port: 0, host: '127.0.0.1' });
}

const requestExport = (base: string, user: string, init: RequestInit = {}) =>
  fetch(`${base}/me/export`, { headers: { 'x-user': user }, ...init });

test('Concurrent exports are limited for a user and a process, until they end or their clients disconnect', async () => {
  const queryGate = createGate();
  const base = await startServer(() => queryGate.opened);
  const countExports = async () => (await stage.listAuditEntries('own_data_exported')).length;
  const earlierCount = await countExports();
  const abortController = new AbortController();
  const abortedExport = assert.rejects(
    requestExport(base, 'u-olena', { signal: abortController.signal }),
  );
  await until(async () => (await countExports()) > earlierCount);
  assert.equal((await requestExport(base, 'u-olena')).status, 409);
  const rejection = await requestExport(base, 'u-taras');
  assert.deepEqual([rejection.status, rejection.headers.get('retry-after')], [503, '2']);
  assert.match(await rejection.text(), /Too many exports are in progress/);
  assert.equal((await requestExport(base, 'u-taras', { method: 'HEAD' })).status, 405);
  abortController.abort();
  await abortedExport;
  queryGate.open();
  await until(async () => {
    const response = await requestExport(base, 'u-taras');
    await response.text();
    return response.status === 200;
  });
});

test('An export whose query fails has no valid end, and later exports succeed', async () => {
  let remainingQueries = 5;
  const base = await startServer(async () => {
    remainingQueries -= 1;
    if (remainingQueries === 0) throw new Error('the connection broke');
  });
  const failedExport = await requestExport(base, 'u-taras');
  const text = await failedExport.text().catch(() => '');
  assert.ok(failedExport.status === 500 || !text.endsWith('}'), text);
  await until(async () => {
    const response = await requestExport(base, 'u-taras');
    return response.status === 200 && JSON.parse(await response.text()).sessions.length === 2;
  });
});
