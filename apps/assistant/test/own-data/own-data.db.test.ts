import assert from 'node:assert/strict';
import { test } from 'node:test';
import { sql } from 'kysely';
import { createMemory } from '../../src/memory/memory.ts';
import { exportOwnData } from '../../src/own-data/export.ts';
import { openStage, talk } from '../chat/stage.ts';
import { person, userOf } from '../helpers/people.ts';
import { gate } from '../helpers/scripted-model.ts';

const stage = await openStage();
const { app, db, model, url } = stage;
// With the embedded database a process that starts ends the answers that there are.
const elsewhere = await stage.another();
const olena = await stage.signedIn(app, person('u-olena'));
const taras = await stage.signedIn(app, person('u-taras'));

/** More than an export reads at once. */
const MANY = 201;

/** Gives somebody so many sessions with one of everything. */
async function fill(userId: string, mark: string, sessions: number): Promise<void> {
  const ids = Array.from({ length: sessions }, (_, index) => `${userId}-${index}`);
  await db
    .insertInto('conversation_sessions')
    .values(ids.map((id) => ({ id, user_id: userId, profile_id: 'default', name: mark })))
    .execute();
  await db
    .insertInto('conversation_messages')
    .values(ids.map((session_id) => ({ session_id, role: 'user', content: mark })))
    .execute();
  await db
    .insertInto('agent_steps')
    .values(
      ids.map((session_id) => ({
        session_id,
        turn_id: 't',
        kind: 'tool',
        title: mark,
        status: 'done',
      })),
    )
    .execute();
  const content = Buffer.from(`${mark} file`);
  await db
    .insertInto('session_files')
    .values({
      session_id: `${userId}-0`,
      name: 'notes.txt',
      size_bytes: content.length,
      sha256: '0'.repeat(64),
      content,
      media_type: null,
    })
    .execute();
  await db
    .insertInto('memory_facts')
    .values({ user_id: userId, category: 'wishes', key: 'city', value: mark })
    .execute();
  await db.insertInto('memory_summaries').values({ user_id: userId, summary: mark }).execute();
  await fillSession(userId, mark);
}

/** Gives the first session of somebody what an answer leaves beside its messages, and a search that found something. */
async function fillSession(userId: string, mark: string): Promise<void> {
  const session_id = `${userId}-0`;
  const now = new Date();
  const { id: turn_id } = await db
    .insertInto('chat_turns')
    .values({
      session_id,
      user_id: userId,
      question_id: 'q',
      status: 'completed',
      lease_until: now,
      finished_at: now,
    })
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
}

/** How many rows there are of what users say, store and have remembered. */
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
    'saved_searches',
    'saved_search_hits',
  ] as const;
  const counted = tables.map(async (table) => {
    const { count } = await db
      .selectFrom(table)
      .select(({ fn }) => fn.countAll<number>().as('count'))
      .executeTakeFirstOrThrow();
    return [table, count] as const;
  });
  return Object.fromEntries(await Promise.all(counted));
}

await fill('u-taras', 'taras-said', 2);
const others = await countRows();
for (const [table, count] of Object.entries(others)) assert.ok(count > 0, table);

/** The database, in which what the export reads is written again meanwhile: with each page what was so longest ago. */
const moving = db.withPlugin({
  transformQuery: ({ node }) => node,
  async transformResult({ result }) {
    if (result.rows.length >= MANY - 1) {
      await sql`update conversation_sessions set last_active = clock_timestamp() where id = (
        select id from conversation_sessions where user_id = 'u-olena' order by last_active, id limit 1
      )`.execute(db);
      await sql`update memory_facts set updated_at = clock_timestamp() where id = (
        select id from memory_facts where user_id = 'u-olena' order by updated_at, id limit 1
      )`.execute(db);
    }
    return result;
  },
});

test('an export has everything of the user, over pages that are written to meanwhile, and nothing of anybody else', async () => {
  await fill('u-olena', 'olena-said', MANY);
  await db
    .insertInto('memory_facts')
    .values(
      Array.from({ length: MANY - 1 }, (_, nth) => ({
        user_id: 'u-olena',
        category: 'wishes',
        key: `key ${nth}`,
        value: 'olena-said',
      })),
    )
    .execute();
  const pieces = await exportOwnData(moving, 'u-olena', new Date());
  const body = (await pieces.toArray()).join('');
  assert.ok(!body.includes('taras-said'));
  assert.ok(!body.includes(olena.sid));
  const document = JSON.parse(body);
  assert.equal(document.user.id, 'u-olena');
  assert.equal(document.sign_ins.length, 1);
  assert.equal(document.memory.facts[0].value, 'olena-said');
  assert.equal(document.memory.summary.summary, 'olena-said');
  for (const [rows, name] of [
    [document.memory.facts, 'key'],
    [document.sessions, 'session_id'],
  ] as const) {
    const names = rows.map((row: Record<string, string>) => row[name]);
    assert.deepEqual([names.length, new Set(names).size], [MANY, MANY], name);
  }
  for (const session of document.sessions) {
    assert.equal(session.messages.length, 1);
    assert.equal(session.steps.length, 1);
  }
  const files = document.sessions.flatMap((session: { files: object[] }) => session.files);
  assert.equal(files.length, 1);
  assert.equal(Buffer.from(files[0].content_base64, 'base64').toString(), 'olena-said file');
});

test('an export is a file to keep, which is noted', async () => {
  const answer = await taras.get('/me/export');
  assert.equal(answer.statusCode, 200);
  assert.match(String(answer.headers['content-disposition']), /^attachment; filename="oselya-/);
  const { sessions, audit } = answer.json();
  assert.equal(sessions.length, 2);
  assert.deepEqual(
    audit.map(({ action }: { action: string }) => action),
    ['own_data_exported', 'signed_in'],
  );
});

test('deleting leaves nothing of the user, all of the others, and the sign-in', async () => {
  const answer = await olena.request('DELETE', '/me/data');
  assert.deepEqual(answer.json(), {
    ok: true,
    deleted: { sessions: MANY, saved_searches: 1, facts: MANY, summaries: 1 },
  });
  const left = (await olena.get('/me/export')).json();
  assert.deepEqual([left.sessions, left.memory.facts], [[], []]);
  assert.equal((await olena.get('/auth/me')).statusCode, 200);
  assert.deepEqual(await countRows(), others);
  // An answer that was being written meanwhile remembers nothing any more.
  const late = {
    category: 'wishes',
    key: 'city',
    value: 'olena-said',
    sourceSessionId: 'u-olena-0',
  };
  const user = userOf('u-olena');
  await assert.rejects(createMemory({ db }).putFact(user, late), { code: 'session_not_found' });
  assert.deepEqual((await olena.get('/me/export')).json().memory.facts, []);
  // Nothing is noted of a deletion that found nothing.
  const none = { sessions: 0, saved_searches: 0, facts: 0, summaries: 0 };
  assert.deepEqual((await olena.request('DELETE', '/me/data')).json().deleted, none);
  const { audit } = (await olena.get('/me/export')).json();
  const deletions = audit.filter(({ action }: { action: string }) => action === 'own_data_deleted');
  assert.equal(deletions.length, 1);
  const other = (await taras.get('/me/export')).json();
  assert.equal(other.sessions.length, 2);
  assert.equal(other.memory.summary.summary, 'taras-said');
});

test('an export has all steps of a session, its messages and the lines about the user, over pages', async () => {
  const session_id = 'u-maria-0';
  const maria = await stage.signedIn(app, person('u-maria'));
  await fill('u-maria', 'maria-said', 1);
  const numbers = Array.from({ length: 2 * MANY }, (_, index) => index);
  await db
    .insertInto('agent_steps')
    .values(
      numbers.map((n) => ({
        session_id,
        turn_id: 't',
        kind: 'tool',
        title: `step ${n}`,
        status: 'done',
      })),
    )
    .execute();
  await db
    .insertInto('conversation_messages')
    .values(numbers.map((n) => ({ session_id, role: 'user', content: `message ${n}` })))
    .execute();
  await db
    .insertInto('audit_log')
    .values(
      numbers.map((n) => ({
        action: `noted ${n}`,
        actor_id: null,
        user_id: 'u-maria',
        details: '{}',
      })),
    )
    .execute();
  const { sessions, audit } = (await maria.get('/me/export')).json();
  const [{ steps, messages }] = sessions;
  const each: [string, string[]][] = [
    ['step', steps.map(({ title }: { title: string }) => title)],
    ['message', messages.map(({ content }: { content: string }) => content)],
    ['noted', audit.map(({ action }: { action: string }) => action)],
  ];
  for (const [what, texts] of each) {
    const found = texts.filter((text) => text.startsWith(`${what} `));
    assert.deepEqual(
      found.toReversed(),
      numbers.map((n) => `${what} ${n}`),
    );
  }
  await maria.request('DELETE', '/me/data');
});

test('deleting ends an answer that is being written: who listens is told, wherever, and it leaves nothing', async (t) => {
  const sid = await stage.signIn('u-iryna');
  const iryna = await talk(t, { url, sid });
  const id = await iryna.newSession();
  const rest = gate();
  t.after(rest.open);
  const wish = { category: 'wishes', key: 'city', value: 'Львів' };
  model.scripts.push(
    { tools: [{ name: 'remember_fact', arguments: wish }] },
    { words: ['Ще ', rest.opened, 'дещо'] },
    { words: ['Усе.'] },
  );
  await iryna.say(id, 'Запамʼятай');
  await iryna.hear('Ще ');
  const there = await talk(t, { url: elsewhere, sid });
  await there.client.ask({ type: 'session.open', session_id: id });
  await there.hear('Ще ');
  const deleted = await app.inject({
    method: 'DELETE',
    url: '/me/data',
    cookies: { svc_auth_session: sid },
  });
  assert.partialDeepStrictEqual(deleted.json(), { deleted: { sessions: 1, facts: 1 } });
  const { turn_id: turnId } = await iryna.waitFor('message.started');
  for (const one of [iryna, there]) {
    const { problem, turn_id } = await one.waitFor('error');
    assert.deepEqual([problem?.code, turn_id], ['session_not_found', turnId]);
  }
  rest.open();
  for (const one of [iryna, there]) {
    await one.client.ask({ type: 'ping' });
    assert.deepEqual([one.of('error').length, one.of('message.completed').length], [1, 0]);
  }
  assert.deepEqual(await countRows(), others);
});
