import assert from 'node:assert/strict';
import { beforeEach, test } from 'node:test';
import { createLogger, createServer } from '@oselya/kit';
import { sql } from 'kysely';
import { sweepAudit } from '../src/admin/audit.ts';
import { sweepEvents } from '../src/conversations/event-log.ts';
import { sweepInvalidations } from '../src/identity/revocation.ts';
import { sweepAuthSessions } from '../src/identity/auth-sessions.ts';
import { sweepPendingLogins } from '../src/identity/sign-in.ts';
import { runSweep, type Sweep, registerUpkeep } from '../src/upkeep.ts';
import { sweepWebhooks } from '../src/webhooks/events.ts';
import { openAssistant } from './helpers/assistant.ts';
import { until } from './helpers/until.ts';

const { db, engine, lines, instance } = await openAssistant();

type Kind = {
  table:
    | 'audit_log'
    | 'webhook_events'
    | 'user_auth_sessions'
    | 'pending_logins'
    | 'invalidations'
    | 'chat_turn_events';
  sweep: Sweep;
  ages: { expired: string; kept: string };
  /** Adds rows of an age. */
  add: (age: string, count: number) => Promise<unknown>;
};

const kinds: Record<string, Kind> = {
  'audit lines': {
    table: 'audit_log',
    sweep: sweepAudit(7),
    ages: { expired: '169 hours', kept: '167 hours' },
    add: (age, count) =>
      sql`insert into audit_log (action, created_at)
        select 'signed_out', now() - ${age}::interval from generate_series(1, ${count})`.execute(
        db,
      ),
  },
  'webhook events': {
    table: 'webhook_events',
    sweep: sweepWebhooks(2),
    ages: { expired: '49 hours', kept: '47 hours' },
    add: (age, count) =>
      sql`insert into webhook_events (received_at, signature, event, outcome, body_sha256)
        select now() - ${age}::interval, 'hmac', 'old', 'ignored', ''
        from generate_series(1, ${count})`.execute(db),
  },
  'auth sessions': {
    table: 'user_auth_sessions',
    sweep: sweepAuthSessions({ lifetimeDays: 30, idleDays: 0 }),
    ages: { expired: '721 hours', kept: '719 hours' },
    add: (age, count) =>
      sql`insert into user_auth_sessions (id, user_id, access_token_enc, refresh_token_enc, created_at)
        select ${age} || n, 'u-1', '', '', now() - ${age}::interval
        from generate_series(1, ${count}) n`.execute(db),
  },
  'pending logins': {
    table: 'pending_logins',
    sweep: sweepPendingLogins,
    ages: { expired: '0 minutes', kept: '-1 minutes' },
    add: (age, count) =>
      sql`insert into pending_logins (state, code_verifier, expires_at)
        select ${age} || n, '', now() - ${age}::interval from generate_series(1, ${count}) n`.execute(
        db,
      ),
  },
  invalidations: {
    table: 'invalidations',
    sweep: sweepInvalidations,
    ages: { expired: '61 minutes', kept: '59 minutes' },
    add: (age, count) =>
      sql`insert into invalidations (kind, created_at)
        select 'access', now() - ${age}::interval from generate_series(1, ${count})`.execute(db),
  },
  'turn events': {
    table: 'chat_turn_events',
    sweep: sweepEvents,
    ages: { expired: '11 minutes', kept: '9 minutes' },
    add: (age, count) => addEvents({ status: 'completed', age, count }),
  },
};

/** Adds events of a turn that began and, unless it runs, ended at an age. */
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

const countOf = async (table: Kind['table']): Promise<number> => {
  const { count } = await db
    .selectFrom(table)
    .select((eb) => eb.fn.countAll<number>().as('count'))
    .executeTakeFirstOrThrow();
  return count;
};

beforeEach(async () => {
  for (const { table } of Object.values(kinds)) await db.deleteFrom(table).execute();
  await db.deleteFrom('conversation_sessions').execute();
  await db
    .insertInto('svc_users')
    .values({ id: 'u-1', email: 'u-1@example.test' })
    .onConflict((conflict) => conflict.doNothing())
    .execute();
});

for (const [name, { table, sweep, ages, add }] of Object.entries(kinds)) {
  test(`Expired ${name} are deleted in batches, and no others`, async () => {
    await add(ages.expired, 2500);
    await add(ages.kept, 3);
    assert.equal(await runSweep(db, sweep), 2500);
    assert.equal(await countOf(table), 3);
    assert.equal(await runSweep(db, sweep), 0);
  });

  // The embedded database has one connection, so no lock can block a sweep.
  if (engine === 'postgres') {
    test(`Locked ${name} are skipped`, async () => {
      await add(ages.expired, 4);
      await db.transaction().execute(async (trx) => {
        await sql`select from ${sql.table(table)} limit 3 for update`.execute(trx);
        assert.equal(await runSweep(db, sweep), 1);
      });
      assert.equal(await countOf(table), 3);
    });
  }
}

test('The events of an answer in progress stay', async () => {
  await addEvents({ status: 'running', age: '1 day', count: 3 });
  assert.equal(await runSweep(db, sweepEvents), 0);
});

test('Idle auth sessions are deleted if SVC_AUTH_IDLE_DAYS is set', async () => {
  await kinds['auth sessions']?.add('1 hour', 5);
  await sql`update user_auth_sessions set last_used_at = now() - interval '3 days'
    where id in (select id from user_auth_sessions limit 2)`.execute(db);
  assert.equal(await runSweep(db, sweepAuthSessions({ lifetimeDays: 30, idleDays: 0 })), 0);
  assert.equal(await runSweep(db, sweepAuthSessions({ lifetimeDays: 30, idleDays: 3 })), 2);
});

test('A server that begins to listen deletes all expired rows', async () => {
  for (const { ages, add } of Object.values(kinds)) await add(ages.expired, 2);
  const app = await instance({ AUDIT_RETENTION_DAYS: '2' });
  for (const { table } of Object.values(kinds)) assert.equal(await countOf(table), 2);
  await app.listen({ host: '127.0.0.1', port: 0 });
  for (const { table } of Object.values(kinds))
    await until(async () => (await countOf(table)) === 0);
  await until(() => lines.some((line) => line.includes('"what":"the audit trail","deleted":2')));
});

test('Sweeps repeat every ten minutes, also after a failure', async (context) => {
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
  context.mock.timers.tick(10 * 60 * 1000);
  await until(() => began.length === 4);
  assert.deepEqual(began.slice(2), ['failing', 'working']);
  await app.close();
  context.mock.timers.tick(10 * 60 * 1000);
  await new Promise(setImmediate);
  assert.equal(began.length, 4);
});
