import assert from 'node:assert/strict';
import { before, beforeEach, suite, test } from 'node:test';
import { until } from '@oselya/testing';
import { CompiledQuery, Kysely, PostgresDialect, sql, type Transaction } from 'kysely';
import { sweepAudit } from '../src/admin/audit.ts';
import { sweepEvents } from '../src/conversations/event-log.ts';
import { deleteAnswer, findAnswer, listMessages } from '../src/conversations/messages.ts';
import { listSessions } from '../src/conversations/session-rows.ts';
import { endSteps, listSteps } from '../src/conversations/steps.ts';
import { findLatestTurn } from '../src/conversations/turns.ts';
import { sweepAuthSessions } from '../src/identity/auth-sessions.ts';
import { sweepInvalidations } from '../src/identity/revocation.ts';
import { sweepPendingLogins } from '../src/identity/sign-in.ts';
import type { Tables } from '../src/tables.ts';
import { runSweep, type Sweep } from '../src/upkeep.ts';
import { sweepWebhooks } from '../src/webhooks/events.ts';
import { openAssistant } from './helpers/assistant.ts';

const { db, pool, engine, lines, createInstance } = await openAssistant();

suite('upkeep', () => {
  const sweepSessions = (SVC_AUTH_IDLE_DAYS: number) =>
    sweepAuthSessions({ SVC_AUTH_COOKIE_MAX_AGE_DAYS: 30, SVC_AUTH_IDLE_DAYS });

  /** Sweeps of tables, with an expired and an unexpired age, and the columns and values of a row with age $1. */
  const sweepCases: [
    table: keyof Tables,
    sweep: Sweep,
    ages: [expired: string, unexpired: string],
    columns: string,
    values: string,
  ][] = [
    [
      'audit_log',
      sweepAudit(7),
      ['169 hours', '167 hours'],
      'action, created_at',
      `'signed_out', now() - $1::interval`,
    ],
    [
      'webhook_events',
      sweepWebhooks(2),
      ['49 hours', '47 hours'],
      'received_at, signature, event, outcome, body_sha256',
      `now() - $1::interval, 'hmac', 'old', 'ignored', ''`,
    ],
    [
      'user_auth_sessions',
      sweepSessions(0),
      ['721 hours', '719 hours'],
      'id, user_id, access_token_enc, refresh_token_enc, created_at',
      `$1::text || n, 'u-1', '', '', now() - $1::interval`,
    ],
    [
      'pending_logins',
      sweepPendingLogins,
      ['0 minutes', '-1 minutes'],
      'state, code_verifier, expires_at',
      `$1::text || n, '', now() - $1::interval`,
    ],
    [
      'invalidations',
      sweepInvalidations,
      ['61 minutes', '59 minutes'],
      'kind, created_at',
      `'access', now() - $1::interval`,
    ],
  ];

  const addRows = (
    [table, , , columns, values]: (typeof sweepCases)[number],
    age: string,
    count: number,
  ) =>
    pool.query(
      `insert into ${table} (${columns}) select ${values} from generate_series(1, ${count}) n`,
      [age],
    );

  /** Adds events of a turn that started `age` ago and, unless it is running, also finished then. */
  const addEvents = (status: string, age: string, count: number) =>
    sql`with session as (
        insert into conversation_sessions (user_id, profile_id, name) values ('u-1', 'default', '')
        returning id
      ), turn as (
        insert into chat_turns
          (session_id, user_id, question_id, status, started_at, lease_until, finished_at)
        select id, 'u-1', 'q', ${status}, now() - ${age}::interval, now(),
          case when ${status} <> 'running' then now() - ${age}::interval end
        from session returning id
      )
      insert into chat_turn_events (turn_id, last_seq, events)
      select turn.id, n, '[]' from turn, generate_series(1, ${count}) n`.execute(db);

  const countRows = async (table: keyof Tables): Promise<number> => {
    const { rows } = await sql<{ count: number }>`
      select count(*)::int as count from ${sql.table(table)}`.execute(db);
    return rows[0]?.count ?? 0;
  };

  beforeEach(async () => {
    for (const [table] of sweepCases) await db.deleteFrom(table).execute();
    await db.deleteFrom('conversation_sessions').execute();
    await sql`insert into svc_users (id, email) values ('u-1', 'u-1@example.test')
      on conflict do nothing`.execute(db);
  });

  for (const sweepCase of sweepCases) {
    const [table, sweep, [expiredAge, unexpiredAge]] = sweepCase;
    test(`Expired rows of ${table} are deleted in batches, and no others`, async () => {
      await addRows(sweepCase, expiredAge, 2500);
      await addRows(sweepCase, unexpiredAge, 3);
      assert.equal(await runSweep(db, sweep), 2500);
      assert.equal(await countRows(table), 3);
      // The embedded database has one connection, so no lock can block a sweep.
      if (engine !== 'postgres') return;
      await addRows(sweepCase, expiredAge, 4);
      await db.transaction().execute(async (trx) => {
        await sql`select from ${sql.table(table)} for update`.execute(trx);
        assert.equal(await runSweep(db, sweep), 0, 'locked rows are skipped');
      });
    });
  }

  test('Events are deleted after their turn, and not during an answer', async () => {
    await addEvents('completed', '11 minutes', 2500);
    await addEvents('completed', '9 minutes', 3);
    await addEvents('running', '1 day', 3);
    assert.equal(await runSweep(db, sweepEvents), 2500);
    assert.equal(await countRows('chat_turn_events'), 6);
  });

  test('Idle auth sessions are deleted if SVC_AUTH_IDLE_DAYS is set', async () => {
    for (const sweepCase of sweepCases) await addRows(sweepCase, '1 hour', 5);
    await sql`update user_auth_sessions set last_used_at = now() - interval '3 days'
      where id in (select id from user_auth_sessions limit 2)`.execute(db);
    assert.equal(await runSweep(db, sweepSessions(0)), 0);
    assert.equal(await runSweep(db, sweepSessions(3)), 2);
  });

  test('A server that begins to listen deletes all expired rows', async () => {
    for (const sweepCase of sweepCases) await addRows(sweepCase, sweepCase[2][0], 2);
    const app = await createInstance({ AUDIT_RETENTION_DAYS: '2' });
    for (const [table] of sweepCases) assert.equal(await countRows(table), 2);
    await app.listen({ host: '127.0.0.1', port: 0 });
    for (const [table] of sweepCases) await until(async () => (await countRows(table)) === 0);
    await until(() => lines.some((line) => line.includes('"what":"audit trail","deleted":2')));
  });
});

suite('plans of frequent statements', async () => {
  const queries: CompiledQuery[] = [];
  const watchedDb = new Kysely<Tables>({
    dialect: new PostgresDialect({ pool }),
    log: ({ query }) => void queries.push(query),
  });

  before(async () => {
    await db.deleteFrom('conversation_sessions').execute();
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

  async function explainQuery(send: Send): Promise<string> {
    queries.length = 0;
    await send(watchedDb as Transaction<Tables>);
    const [query] = queries;
    assert.ok(query);
    const { rows } = await db.executeQuery<{ 'QUERY PLAN': string }>(
      CompiledQuery.raw(`explain ${query.sql}`, [...query.parameters]),
    );
    return rows.map((row) => row['QUERY PLAN']).join('\n');
  }

  const us = (Date.now() - 12 * 3_600_000) * 1000;
  const limit = 11;
  const messageQuery = { sessionId: 's-1', scope: 'everything', limit } as const;
  const question = { sessionId: 's-8', questionId: 'q-7' };
  const user = { userId: 'u-1' };

  const orderedLists: [index: string, send: Send][] = [
    [
      'conversation_sessions_last_active',
      (on) => listSessions(on, { scope: 'everything', after: [us, 's'], limit }),
    ],
    ['conversation_sessions_owner', (on) => listSessions(on, { scope: user, limit })],
    [
      'conversation_sessions_owner',
      (on) => listSessions(on, { scope: user, after: [us, 's'], limit }),
    ],
    ['conversation_messages_session', (on) => listMessages(on, messageQuery)],
    [
      'conversation_messages_session',
      (on) => listMessages(on, { ...messageQuery, before: [us, 1] }),
    ],
    ['agent_steps_session', (on) => listSteps(on, messageQuery)],
  ];
  const lookups: [indexes: string[], send: Send][] = [
    [['agent_steps_session'], (on) => endSteps(on, { turnId: 't-7', sessionId: 's-8' })],
    [['chat_turns_session'], (on) => findLatestTurn(on, 's-8')],
    [['chat_turns_session', 'conversation_messages_turn'], (on) => findAnswer(on, question)],
    [['chat_turns_session', 'conversation_messages_turn'], (on) => deleteAnswer(on, question)],
  ];

  test('Lists are read in the order of an index', async () => {
    for (const [index, send] of orderedLists) {
      const plan = await explainQuery(send);
      assert.match(plan, new RegExp(`Index (Only )?Scan (Backward )?using ${index} `), plan);
      assert.doesNotMatch(plan, /Sort|Seq Scan/, plan);
    }
  });

  test('Turns, answers and steps are found by indexes', async () => {
    for (const [indexes, send] of lookups) {
      const plan = await explainQuery(send);
      for (const index of indexes) assert.ok(plan.includes(index), plan);
      assert.doesNotMatch(plan, /Seq Scan/, plan);
    }
  });
});
