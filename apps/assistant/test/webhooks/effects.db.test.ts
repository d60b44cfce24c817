import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { test } from 'node:test';
import { sql } from 'kysely';
import { endEveryOtherDeletion } from '../helpers/conflicts.ts';
import { openReceiver } from './receiver.ts';
import { post, send, standardHeaders } from './sender.ts';

const receiver = await openReceiver();
const { app, second, db, provider, signInAs, signedIn, expire } = receiver;
const { ledger, audit, sessions, cached } = receiver;

const state = async () => ({ sessions: await sessions(), cached: await cached() });

const BEFORE = { sessions: ['u-1', 'u-1', 'u-2'], cached: ['u-1', 'u-2'] };
const ENDED = { sessions: ['u-2'], cached: ['u-1', 'u-2'] };
const ALL_ENDED = { sessions: [], cached: ['u-1', 'u-2'] };
const CLEARED = { sessions: ['u-1', 'u-1', 'u-2'], cached: ['u-2'] };
const ALL_CLEARED = { sessions: ['u-1', 'u-1', 'u-2'], cached: [] };

for (const [event, userId, after, action, ended] of [
  ['user.blocked', 'u-1', ENDED, 'sign_ins_ended', 2],
  ['user.archived', 'u-1', ENDED, 'sign_ins_ended', 2],
  ['user.deleted', 'u-1', ENDED, 'sign_ins_ended', 2],
  ['session.revoked', 'u-1', ENDED, 'sign_ins_ended', 2],
  ['user.blocked', 'u-nobody', BEFORE, 'sign_ins_ended', 0],
  ['auth.global_logout', null, ALL_ENDED, 'sign_ins_ended', 3],
  ['auth.global_logout', 'u-1', ALL_ENDED, 'sign_ins_ended', 3],
  ['client.roles_changed', 'u-1', CLEARED, 'access_cleared', 0],
  ['client.permissions_changed', 'u-1', CLEARED, 'access_cleared', 0],
  ['client.roles_changed', null, ALL_CLEARED, 'access_cleared', 0],
  ['client.permissions_changed', null, ALL_CLEARED, 'access_cleared', 0],
  ['user.blocked', null, BEFORE, null, 0],
  ['user.archived', null, BEFORE, null, 0],
  ['user.deleted', null, BEFORE, null, 0],
  ['session.revoked', null, BEFORE, null, 0],
  ['user.unblocked', 'u-1', BEFORE, null, 0],
  ['User.Blocked', 'u-1', BEFORE, null, 0],
  [null, 'u-1', BEFORE, null, 0],
] as const) {
  test(`${event ?? 'no event'} of ${userId ?? 'nobody'} does what the table says`, async () => {
    for (const id of ['u-1', 'u-1', 'u-2']) await signInAs(id);
    assert.deepEqual(await state(), BEFORE);
    const body = JSON.stringify({ event, user_id: userId });
    const answer = await post(app, body, standardHeaders(body, { id: 'msg_1' }));
    assert.equal(answer.statusCode, 200);
    assert.deepEqual(answer.json(), { ok: true });
    assert.deepEqual(await state(), after);

    const [row, ...more] = await ledger();
    assert.ok(row && more.length === 0);
    assert.ok(Math.abs(Date.now() - row.received_at.getTime()) < 60_000);
    assert.deepEqual(
      { ...row, id: 0, received_at: 0 },
      {
        id: 0,
        received_at: 0,
        delivery_id: 'msg_1',
        signature: 'standard',
        event,
        user_id: userId,
        outcome: action === null ? 'ignored' : 'applied',
        sessions_ended: ended,
        body_sha256: createHash('sha256').update(body).digest('hex'),
      },
    );
    const of = event === 'auth.global_logout' ? null : userId;
    const details = action === 'sign_ins_ended' ? { event, sessions: ended } : { event };
    const line = { action, actor_id: null, user_id: of, details };
    assert.deepEqual(await audit(), action === null ? [] : [line]);
  });
}

for (const [name, body] of [
  ['type for event', { type: 'user.blocked', user_id: 'u-1' }],
  ['the user under data', { type: 'user.blocked', data: { user_id: 'u-1' } }],
  ['more than is read', { event: 'user.blocked', user_id: 'u-1', client_id: 'x', at: [1, {}] }],
] as const) {
  test(`an event with ${name} is understood`, async () => {
    await signInAs('u-1');
    assert.equal((await send(app, body)).statusCode, 200);
    assert.deepEqual(await sessions(), []);
  });
}

for (const member of ['sub', 'id']) {
  for (const id of ['78', '12345678901234567890']) {
    test(`a user with the number ${id} as ${member} is one user everywhere`, async () => {
      const email = '"email":"olena@example.test"';
      const body = `{"${member}":${id},${email}}`;
      provider.faults.set('userinfo', { status: 200, body });
      const browser = await signedIn(app);
      assert.equal((await browser.get('/auth/me')).json().id, id);
      await expire(browser);
      assert.equal((await browser.get('/auth/me')).json().id, id, 'after a refresh');
      await sql`update user_auth_sessions set user_checked_at = null`.execute(db);
      provider.faults.set('userinfo', { status: 200, body: `{"sub":"${id}",${email}}` });
      assert.equal((await browser.get('/auth/me')).json().id, id, 'written as text');
      assert.deepEqual(await sessions(), [id]);
      const event = `{"event":"user.blocked","user_id":${id}}`;
      assert.equal((await post(app, event, standardHeaders(event))).statusCode, 200);
      assert.deepEqual(await sessions(), []);
    });
  }
}

test('who was signed out by a webhook is 401, on every process', async () => {
  const browser = await signInAs('u-1');
  assert.equal((await browser.get('/auth/me')).statusCode, 200);
  await send(second, { event: 'session.revoked', user_id: 'u-1' });
  const cookies = { svc_auth_session: browser.sid };
  for (const one of [app, second]) {
    assert.equal((await one.inject({ url: '/auth/me', cookies })).statusCode, 401);
  }
});

test('an event that the database ends for the sake of another is acted on again, and once', async (t) => {
  for (const id of ['u-1', 'u-1']) await signInAs(id);
  await endEveryOtherDeletion(t, db, 'user_auth_sessions');
  assert.equal((await send(app, { event: 'user.blocked', user_id: 'u-1' })).statusCode, 200);
  assert.deepEqual(await sessions(), []);
  assert.deepEqual(
    (await ledger()).map(({ outcome, sessions_ended: ended }) => [outcome, ended]),
    [['applied', 2]],
  );
});
