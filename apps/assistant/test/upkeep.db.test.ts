import assert from 'node:assert/strict';
import { beforeEach, test } from 'node:test';
import { createLogger, createServer } from '@oselya/kit';
import { sql } from 'kysely';
import { sweepAudit } from '../src/admin/audit.ts';
import { sweepEvents } from '../src/conversations/event-log.ts';
import { sweepInvalidations } from '../src/identity/revocation.ts';
import { sweepSessions } from '../src/identity/sessions.ts';
import { sweepPendingLogins } from '../src/identity/sign-in.ts';
import { runSweep, type Sweep, registerUpkeep } from '../src/upkeep.ts';
import { sweepWebhooks } from '../src/webhooks/events.ts';
import { openAssistant } from './helpers/assistant.ts';
import { until } from './helpers/until.ts';

const { db, engine, lines, instance } = await openAssistant();

type Kept = {
  table:
    | 'audit_log'
    | 'webhook_events'
    | 'user_auth_sessions'
    | 'pending_logins'
    | 'invalidations'
    | 'chat_turn_events';
  sweep: Sweep;
  /** How old the youngest is that goes, and the oldest that stays. */
  ages: { over: string; kept: string };
  /** Adds rows of an age. */
  add: (age: string, count: number) => Promise<unknown>;
};

const kept: Record<string, Kept> = {
  'lines of the audit trail': {
    table: 'audit_log',
    sweep: sweepAudit(7),
    ages: { over: '169 hours', kept: '167 hours' },
    add: (age, count) =>
      sql`insert into audit_log (action, created_at)
        select 'signed_out', now() - ${age}::interval from generate_series(1, ${count})`.execute(
        db,
      ),
  },
  'rows of the ledger': {
    table: 'webhook_events',
    sweep: sweepWebhooks(2),
    ages: { over: '49 hours', kept: '47 hours' },
    add: (age, count) =>
      sql`insert into webhook_events (received_at, signature, event, outcome, body_sha256)
        select now() - ${age}::interval, 'hmac', 'old', 'ignored', ''
        from generate_series(1, ${count})`.execute(db),
  },
  'auth sessions': {
    table: 'user_auth_sessions',
    sweep: sweepSessions({ lifetimeDays: 30, idleDays: 0 }),
    ages: { over: '721 hours', kept: '719 hours' },
    add: (age, count) =>
      sql`insert into user_auth_sessions (id, user_id, access_token_enc, refresh_token_enc, created_at)
        select ${age} || n, 'u-1', '', '', now() - ${age}::interval
        from generate_series(1, ${count}) n`.execute(db),
  },
  'pending logins': {
    table: 'pending_logins',
    sweep: sweepPendingLogins,
    ages: { over: '0 minutes', kept: '-1 minutes' },
    add: (age, count) =>
      sql`insert into pending_logins (state, code_verifier, expires_at)
        select ${age} || n, '', now() - ${age}::interval from generate_series(1, ${count}) n`.execute(
        db,
      ),
  },
  invalidations: {
    table: 'invalidations',
    sweep: sweepInvalidations,
    ages: { over: '61 minutes', kept: '59 minutes' },
    add: (age, count) =>
      sql`insert into invalidations (kind, created_at)
        select 'access', now() - ${age}::interval from generate_series(1, ${count})`.execute(db),
  },
  'what was streamed of answers': {
    table: 'chat_turn_events',
    sweep: sweepEvents,
    ages: { over: '11 minutes', kept: '9 minutes' },
    add: (age, count) => addEvents({ status: 'completed', age, count }),
  },
};

/** Adds what a turn streamed that ended so long ago; one that runs began so long ago. */
const addEvents = ({ status, age, count }: { status: string; age: string; count: number }) =>
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

const countOf = async (table: Kept['table']): Promise<number> => {
  const { count } = await db
    .selectFrom(table)
    .select((eb) => eb.fn.countAll<number>().as('count'))
    .executeTakeFirstOrThrow();
  return count;
};

beforeEach(async () => {
  for (const { table } of Object.values(kept)) await db.deleteFrom(table).execute();
  // A turn that seems to run would be cut off by a server that begins to listen.
  await db.deleteFrom('conversation_sessions').execute();
  await db
    .insertInto('svc_users')
    .values({ id: 'u-1', email: 'u-1@example.test' })
    .onConflict((conflict) => conflict.doNothing())
    .execute();
});

for (const [name, { table, sweep, ages, add }] of Object.entries(kept)) {
  test(`${name} go when their time is over, however many, and no sooner`, async () => {
    await add(ages.over, 2500);
    await add(ages.kept, 3);
    assert.equal(await runSweep(db, sweep), 2500);
    assert.equal(await countOf(table), 3);
    assert.equal(await runSweep(db, sweep), 0);
  });

  // The embedded database has one connection, so nothing there can hold a lock against a sweep.
  if (engine === 'postgres') {
    test(`${name} that another process is sweeping out are passed over`, async () => {
      await add(ages.over, 4);
      await db.transaction().execute(async (trx) => {
        await sql`select from ${sql.table(table)} limit 3 for update`.execute(trx);
        assert.equal(await runSweep(db, sweep), 1);
      });
      assert.equal(await countOf(table), 3);
    });
  }
}

test('of an answer that is being written all that was streamed stays, however long it takes', async () => {
  await addEvents({ status: 'running', age: '1 day', count: 3 });
  assert.equal(await runSweep(db, sweepEvents), 0);
});

test('auth sessions that were not used for long go too, where that ends them', async () => {
  await kept['auth sessions']?.add('1 hour', 5);
  await sql`update user_auth_sessions set last_used_at = now() - interval '3 days'
    where id in (select id from user_auth_sessions limit 2)`.execute(db);
  assert.equal(await runSweep(db, sweepSessions({ lifetimeDays: 30, idleDays: 0 })), 0);
  assert.equal(await runSweep(db, sweepSessions({ lifetimeDays: 30, idleDays: 3 })), 2);
});

test('a server that begins to listen sweeps all of it', async () => {
  for (const { ages, add } of Object.values(kept)) await add(ages.over, 2);
  const app = await instance({ AUDIT_RETENTION_DAYS: '2' });
  for (const { table } of Object.values(kept)) assert.equal(await countOf(table), 2);
  await app.listen({ host: '127.0.0.1', port: 0 });
  for (const { table } of Object.values(kept))
    await until(async () => (await countOf(table)) === 0);
  await until(() => lines.some((line) => line.includes('"what":"the audit trail","deleted":2')));
});

test('it sweeps every ten minutes, and what fails once is tried again', async (context) => {
  context.mock.timers.enable({ apis: ['setInterval'] });
  const warnings: string[] = [];
  const log = createLogger({
    level: 'warn',
    service: 'test',
    destination: { write: (line) => void warnings.push(line) },
  });
  const openapi = { title: 'Nothing', description: '', version: '0' };
  const app = await createServer({ log, bodyLimit: 1024, openapi });
  const began: string[] = [];
  registerUpkeep(app, {
    db,
    log,
    sweeps: {
      failing() {
        began.push('failing');
        throw new Error('no answer');
      },
      working() {
        began.push('working');
        return sql`select 1`;
      },
    },
  });
  await app.listen({ host: '127.0.0.1', port: 0 });
  await until(() => began.length === 2);
  assert.match(warnings.join(''), /"what":"failing"/);
  context.mock.timers.tick(10 * 60 * 1000 - 1);
  await new Promise(setImmediate);
  assert.deepEqual(began, ['failing', 'working']);
  context.mock.timers.tick(1);
  await until(() => began.length === 4);
  assert.deepEqual(began.slice(2), ['failing', 'working']);
  assert.equal(warnings.length, 2);
  await app.close();
  context.mock.timers.tick(10 * 60 * 1000);
  await new Promise(setImmediate);
  assert.equal(began.length, 4);
});
