import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import {
  CompiledQuery,
  DummyDriver,
  Kysely,
  PostgresAdapter,
  PostgresIntrospector,
  PostgresQueryCompiler,
  sql,
} from 'kysely';
import { listMessages } from '../../src/sessions/messages.ts';
import { listSessions } from '../../src/sessions/repository.ts';
import { listSteps } from '../../src/planning/steps.sql.ts';
import type { Tables } from '../../src/tables.ts';
import { openAssistant } from '../helpers/assistant.ts';

const { db } = await openAssistant();

before(async () => {
  await sql`
    insert into conversation_sessions (id, user_id, last_active)
    select 's-' || number, 'u-' || number % 4, now() - number * interval '1 minute'
    from generate_series(1, 2000) as number`.execute(db);
  await sql`
    insert into conversation_messages (session_id, role, content)
    select 's-' || number % 20 + 1, 'user', 'Hello' from generate_series(1, 2000) as number`.execute(
    db,
  );
  await sql`
    insert into agent_steps (session_id, turn_id, kind, title, status)
    select 's-' || number % 20 + 1, 't', 'tool', 'x', 'done'
    from generate_series(1, 2000) as number`.execute(db);
  await sql`analyze`.execute(db);
});

/** The plan of the statement that `list` sends. */
async function planOf(list: (recorder: Kysely<Tables>) => Promise<unknown>): Promise<string> {
  const sent: CompiledQuery[] = [];
  const recorder = new Kysely<Tables>({
    dialect: {
      createAdapter: () => new PostgresAdapter(),
      createDriver: () => new DummyDriver(),
      createIntrospector: (database) => new PostgresIntrospector(database),
      createQueryCompiler: () => new PostgresQueryCompiler(),
    },
    log: ({ query }) => void sent.push(query),
  });
  await list(recorder);
  const [query] = sent;
  assert.ok(query);
  const { rows } = await db.executeQuery<{ 'QUERY PLAN': string }>(
    CompiledQuery.raw(`explain ${query.sql}`, [...query.parameters]),
  );
  return rows.map((row) => row['QUERY PLAN']).join('\n');
}

/** In the middle of what there is. */
const us = (Date.now() - 12 * 3_600_000) * 1000;
const limit = 11;

for (const [what, index, list] of [
  [
    'all sessions',
    'conversation_sessions_last_active',
    (on) => listSessions(on, { reach: 'everything', limit }),
  ],
  [
    'a further page of them',
    'conversation_sessions_last_active',
    (on) => listSessions(on, { reach: 'everything', after: [us, 's'], limit }),
  ],
  [
    "a user's sessions",
    'conversation_sessions_owner',
    (on) => listSessions(on, { reach: { userId: 'u-1' }, limit }),
  ],
  [
    'a further page of those',
    'conversation_sessions_owner',
    (on) => listSessions(on, { reach: { userId: 'u-1' }, after: [us, 's'], limit }),
  ],
  [
    'the latest messages',
    'conversation_messages_session',
    (on) => listMessages(on, { sessionId: 's-1', reach: 'everything', limit }),
  ],
  [
    'the messages before those',
    'conversation_messages_session',
    (on) => listMessages(on, { sessionId: 's-1', reach: 'everything', before: [us, 1], limit }),
  ],
  ['the steps', 'agent_steps_session', (on) => listSteps(on, { sessionId: 's-1', limit })],
] as const satisfies [string, string, (on: Kysely<Tables>) => Promise<unknown>][]) {
  test(`${what} are read off an index that has them in order`, async () => {
    const plan = await planOf(list);
    assert.match(plan, new RegExp(`Index (Only )?Scan (Backward )?using ${index} `), plan);
    assert.doesNotMatch(plan, /Sort|Seq Scan/, plan);
  });
}
