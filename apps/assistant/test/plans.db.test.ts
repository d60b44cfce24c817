import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { CompiledQuery, Kysely, PostgresDialect, sql, type Transaction } from 'kysely';
import { deleteAnswer, findAnswer, listMessages } from '../src/conversations/messages.ts';
import { listSessions } from '../src/conversations/session-rows.ts';
import { endSteps, listSteps } from '../src/conversations/steps.ts';
import { findLatestTurn } from '../src/conversations/turns.ts';
import type { Tables } from '../src/tables.ts';
import { openAssistant } from './helpers/assistant.ts';

const { db, pool } = await openAssistant();
const sent: CompiledQuery[] = [];
const watched = new Kysely<Tables>({
  dialect: new PostgresDialect({ pool }),
  log: ({ query }) => void sent.push(query),
});

before(async () => {
  await sql`
    insert into conversation_sessions (id, user_id, last_active)
    select 's-' || number, 'u-' || number % 4, now() - number * interval '1 minute'
    from generate_series(1, 2000) as number`.execute(db);
  await sql`
    insert into chat_turns (id, session_id, user_id, question_id, status, lease_until, finished_at)
    select 't-' || number, 's-' || number % 20 + 1, 'u-1', 'q-' || number, 'completed', now(), now()
    from generate_series(1, 2000) as number`.execute(db);
  await sql`
    insert into conversation_messages (session_id, role, content, turn_id)
    select 's-' || number % 20 + 1, role, 'Hello', 't-' || number
    from generate_series(1, 2000) as number, unnest(array['user', 'assistant']) as role`.execute(
    db,
  );
  await sql`
    insert into agent_steps (session_id, turn_id, kind, title, status)
    select 's-' || number % 20 + 1, 't-' || number, 'tool', 'x', 'done'
    from generate_series(1, 2000) as number`.execute(db);
  await sql`analyze`.execute(db);
});

type Send = (on: Transaction<Tables>) => Promise<unknown>;

/** Returns the plan of a statement. */
async function planOf(send: Send): Promise<string> {
  sent.length = 0;
  await send(watched as Transaction<Tables>);
  const [query] = sent;
  assert.ok(query);
  const { rows } = await db.executeQuery<{ 'QUERY PLAN': string }>(
    CompiledQuery.raw(`explain ${query.sql}`, [...query.parameters]),
  );
  return rows.map((row) => row['QUERY PLAN']).join('\n');
}

/** A time in the middle of all rows. */
const us = (Date.now() - 12 * 3_600_000) * 1000;
const limit = 11;

for (const [what, index, send] of [
  [
    'all sessions',
    'conversation_sessions_last_active',
    (on) => listSessions(on, { scope: 'everything', limit }),
  ],
  [
    'later pages of all sessions',
    'conversation_sessions_last_active',
    (on) => listSessions(on, { scope: 'everything', after: [us, 's'], limit }),
  ],
  [
    "a user's sessions",
    'conversation_sessions_owner',
    (on) => listSessions(on, { scope: { userId: 'u-1' }, limit }),
  ],
  [
    "later pages of a user's sessions",
    'conversation_sessions_owner',
    (on) => listSessions(on, { scope: { userId: 'u-1' }, after: [us, 's'], limit }),
  ],
  [
    'the latest messages',
    'conversation_messages_session',
    (on) => listMessages(on, { sessionId: 's-1', scope: 'everything', limit }),
  ],
  [
    'earlier messages',
    'conversation_messages_session',
    (on) => listMessages(on, { sessionId: 's-1', scope: 'everything', before: [us, 1], limit }),
  ],
  ['the steps', 'agent_steps_session', (on) => listSteps(on, { sessionId: 's-1', limit })],
] as const satisfies [string, string, Send][]) {
  test(`${what} are read in the order of an index`, async () => {
    const plan = await planOf(send);
    assert.match(plan, new RegExp(`Index (Only )?Scan (Backward )?using ${index} `), plan);
    assert.doesNotMatch(plan, /Sort|Seq Scan/, plan);
  });
}

const question = { sessionId: 's-8', questionId: 'q-7' };

for (const [what, indexes, send] of [
  [
    'the end of the steps of a turn',
    ['agent_steps_session'],
    (on) => endSteps(on, { turnId: 't-7', sessionId: 's-8' }),
  ],
  ['the newest turn', ['chat_turns_session'], (on) => findLatestTurn(on, 's-8')],
  [
    'the answer to a question',
    ['chat_turns_session', 'conversation_messages_turn'],
    (on) => findAnswer(on, question),
  ],
  [
    'a deleted answer',
    ['chat_turns_session', 'conversation_messages_turn'],
    (on) => deleteAnswer(on, question),
  ],
] as const satisfies [string, readonly string[], Send][]) {
  test(`${what} is found by an index`, async () => {
    const plan = await planOf(send);
    for (const index of indexes) assert.ok(plan.includes(index), plan);
    assert.doesNotMatch(plan, /Seq Scan/, plan);
  });
}
