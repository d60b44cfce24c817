import assert from 'node:assert/strict';
import { test } from 'node:test';
import { openReceiver } from './receiver.ts';
import { hmacHeaders, post, send } from './sender.ts';

const { db, app, second, signInAs, ledger, audit, sessions } = await openReceiver();

const USERS = 20;
const users = Array.from({ length: USERS }, (_, n) => `u-${n}`);

/** For each user: a block, twice; cleared roles; an event that changes nothing; one without an id. */
function deliveries(user: string) {
  const blocked = { event: 'user.blocked', user_id: user };
  const unsigned = JSON.stringify({ event: 'session.revoked', user_id: user });
  return [
    () => send(app, blocked, `${user}-blocked`),
    () => send(second, blocked, `${user}-blocked`),
    () => send(app, { event: 'client.roles_changed', user_id: user }, `${user}-roles`),
    () => send(second, { event: 'client.permissions_changed' }, `${user}-permissions`),
    () => send(app, { event: 'user.updated', user_id: user }, `${user}-updated`),
    () => post(second, unsigned, hmacHeaders(unsigned)),
    () => post(app, unsigned, hmacHeaders(unsigned)),
  ];
}

test('a storm of webhooks over two processes is taken as exactly what it is', async () => {
  const browsers = [];
  for (const user of users) browsers.push(await signInAs(user), await signInAs(user));
  assert.equal((await sessions()).length, 2 * USERS);

  const storm = users.flatMap(deliveries).concat(
    // Several logouts of everybody in between, each with an id of its own.
    Array.from(
      { length: 60 },
      (_, n) => () =>
        send(
          n % 2 ? app : second,
          { event: n % 3 ? 'user.created' : 'auth.global_logout' },
          `g-${n}`,
        ),
    ),
  );
  const reads = browsers.map(
    ({ sid }, n) =>
      () =>
        (n % 2 ? app : second).inject({ url: '/auth/me', cookies: { svc_auth_session: sid } }),
  );
  const [answers, seen] = await Promise.all([
    Promise.all(storm.map((deliver) => deliver())),
    Promise.all(reads.map((read) => read())),
  ]);

  assert.equal(answers.length, 7 * USERS + 60);
  assert.deepEqual(new Set(answers.map((answer) => answer.statusCode)), new Set([200]));
  for (const { statusCode } of seen) assert.ok(statusCode === 200 || statusCode === 401);

  const rows = await ledger();
  const count = (event: string) => rows.filter((row) => row.event === event).length;
  assert.deepEqual(
    {
      blocked: count('user.blocked'),
      roles: count('client.roles_changed'),
      permissions: count('client.permissions_changed'),
      updated: count('user.updated'),
      revoked: count('session.revoked'),
      created: count('user.created'),
      logouts: count('auth.global_logout'),
    },
    {
      blocked: USERS,
      roles: USERS,
      permissions: USERS,
      updated: USERS,
      revoked: 2 * USERS,
      created: 40,
      logouts: 20,
    },
  );
  const ended = rows.reduce((sum, row) => sum + row.sessions_ended, 0);
  assert.equal(ended, 2 * USERS, 'each session was ended by one of them');
  assert.equal((await audit()).length, rows.filter((row) => row.outcome === 'applied').length);

  assert.deepEqual(await sessions(), []);
  for (const read of reads) assert.equal((await read()).statusCode, 401);
  const cleared = await db
    .selectFrom('svc_users')
    .select('access_generation')
    .where('id', 'in', users)
    .execute();
  assert.deepEqual(
    cleared.map((row) => row.access_generation),
    users.map(() => USERS + 1),
    'once by its own event, and once by each that was for everybody',
  );
});
