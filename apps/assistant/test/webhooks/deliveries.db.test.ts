import assert from 'node:assert/strict';
import { test } from 'node:test';
import { sql } from 'kysely';
import { openReceiver } from './receiver.ts';
import { hmacHeaders, post, send } from './sender.ts';

const { db, engine, app, second, signInAs, ledger, audit, sessions } = await openReceiver();

const BODY = JSON.stringify({ event: 'user.blocked', user_id: 'u-1' });

test('a delivery that comes again is answered and not acted on again', async () => {
  await send(app, { event: 'user.blocked', user_id: 'u-1' }, 'msg_again');
  await signInAs('u-1');
  const again = await send(second, { event: 'user.blocked', user_id: 'u-1' }, 'msg_again');
  assert.equal(again.statusCode, 200);
  assert.deepEqual(await sessions(), ['u-1']);
  assert.equal((await ledger()).length, 1);
  assert.equal((await audit()).length, 1);
  await send(second, { event: 'user.blocked', user_id: 'u-1' }, 'msg_anew');
  assert.deepEqual(await sessions(), []);
});

test('a delivery id that is not signed does not make a new delivery of an old one', async () => {
  const body = JSON.stringify({ event: 'user.blocked', user_id: 'u-1', event_id: 'evt_1' });
  const replay = (id: string) =>
    post(app, body, { ...hmacHeaders(body), 'x-delivery-id': id, 'idempotency-key': id });
  await replay('1');
  await signInAs('u-1');
  assert.equal((await replay('2')).statusCode, 200);
  assert.deepEqual(await sessions(), ['u-1']);
  assert.deepEqual(
    (await ledger()).map((row) => [row.delivery_id, row.signature]),
    [['evt_1', 'hmac']],
  );
});

test('an equal body without an id may be a new event, and is acted on again', async () => {
  for (let time = 0; time < 2; time += 1) {
    await signInAs('u-1');
    assert.equal((await post(app, BODY, hmacHeaders(BODY))).statusCode, 200);
    assert.deepEqual(await sessions(), []);
  }
  const rows = await ledger();
  assert.deepEqual(
    rows.map((row) => row.delivery_id),
    [null, null],
  );
  assert.equal(rows[0]?.body_sha256, rows[1]?.body_sha256);
});

test('of one delivery that two processes get at the same moment, one acts', async () => {
  for (let round = 0; round < 10; round += 1) {
    await signInAs('u-1');
    const event = { event: 'user.blocked', user_id: 'u-1' };
    const answers = await Promise.all(
      Array.from({ length: 8 }, (_, n) => send(n % 2 ? app : second, event, `msg_${round}`)),
    );
    assert.deepEqual(new Set(answers.map((answer) => answer.statusCode)), new Set([200]));
  }
  const rows = await ledger();
  assert.equal(rows.length, 10);
  assert.ok(rows.every((row) => row.sessions_ended === 1));
  assert.equal((await audit()).length, 10);
});

/** Runs an SQL statement at the first audit line that comes, and then no more. */
async function failOnce(statement: string): Promise<() => Promise<void>> {
  // Unlike a table, a sequence keeps its count when the failed statement is undone.
  await sql`create sequence failures`.execute(db);
  await sql`
    create function fail_once() returns trigger language plpgsql as $$
    begin
      if nextval('failures') = 1 then ${sql.raw(statement)}; end if;
      return new;
    end $$`.execute(db);
  await sql`
    create trigger fail_once before insert on audit_log
    for each row execute function fail_once()`.execute(db);
  return async () => {
    await sql`drop function fail_once cascade`.execute(db);
    await sql`drop sequence failures`.execute(db);
  };
}

for (const [name, statement, status] of [
  ['a failure', "raise exception 'the disk is full'", 500],
  // The embedded database has no server to lose.
  ...(engine === 'postgres'
    ? ([
        ['a database that is away', 'perform pg_terminate_backend(pg_backend_pid())', 503],
      ] as const)
    : []),
] as const) {
  test(`${name} is ${status} and undoes everything: the delivery that is repeated is acted on`, async (context) => {
    await signInAs('u-1');
    const mend = await failOnce(statement);
    context.after(mend);
    const failed = await send(app, { event: 'user.blocked', user_id: 'u-1' }, 'msg_1');
    assert.equal(failed.statusCode, status);
    assert.deepEqual(await sessions(), ['u-1']);
    assert.deepEqual([await ledger(), await audit()], [[], []]);
    const repeated = await send(app, { event: 'user.blocked', user_id: 'u-1' }, 'msg_1');
    assert.equal(repeated.statusCode, 200);
    assert.deepEqual(await sessions(), []);
    assert.equal((await ledger()).length, 1);
  });
}
