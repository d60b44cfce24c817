import assert from 'node:assert/strict';
import { beforeEach, test } from 'node:test';
import { sql } from 'kysely';
import {
  clearAccess,
  endAllSessions,
  endProviderSession,
  endUserSessions,
  setCachedRole,
} from '../../src/identity/revocation.ts';
import { openAssistant } from '../helpers/assistant.ts';
import { ReconnectingClient } from '../helpers/reconnecting-client.ts';
import { SocketClient } from '../helpers/socket-client.ts';
import { until } from '../helpers/until.ts';
import { SECRET, send } from '../webhooks/signing.ts';
import { listening, person } from './people.ts';

const { db, engine, provider, instance, signedIn, expire } = await openAssistant({
  IDP_WEBHOOK_SECRET: SECRET,
});
const [here, there] = [await instance(), await instance()];
const urls = [await listening(here), await listening(there)];
const [url, otherUrl] = urls as [string, string];

const USE = ['svc.profiles.use'];
const olena = person('u-1', USE);
const create = { type: 'session.create' };

beforeEach(() => provider.reset());

/** A user's browser that signed in at one instance, with a socket at each, whose user is known. */
async function connected(user: object = olena) {
  const browser = await signedIn(here, user);
  const sockets = await Promise.all(
    urls.map((address) => SocketClient.open(address, { sid: browser.sid })),
  );
  for (const socket of sockets) assert.equal(await socket.outcome(create), 'ok');
  return { browser, sockets };
}

/** Waits until all are closed as signed out, 5 s at most, and tells how long that took. */
async function signedOut(t: { diagnostic(message: string): void }, sockets: SocketClient[]) {
  const began = performance.now();
  await until(() => sockets.every(({ isClosed }) => isClosed));
  for (const { closed } of sockets) assert.equal((await closed).code, 4401);
  t.diagnostic(`closed after ${Math.round(performance.now() - began)} ms`);
}

test('a session of the socket belongs to the user of the cookie', async () => {
  const { sockets } = await connected();
  const owners = await db.selectFrom('conversation_sessions').select('user_id').execute();
  assert.deepEqual(
    owners.map(({ user_id }) => user_id),
    ['u-1', 'u-1'],
  );
  for (const { socket } of sockets) socket.close();
});

test('an expired access token is refreshed for the handshake, as for any request', async () => {
  const browser = await signedIn(here, olena);
  await expire(browser);
  const socket = await SocketClient.open(url, { sid: browser.sid });
  assert.equal(await socket.outcome(create), 'ok');
  assert.equal(provider.count('token', 'refresh_token'), 1);
  socket.socket.close();
});

test('a logout closes the sockets of its sign-in everywhere, and of no other', async (t) => {
  const { browser, sockets } = await connected();
  const other = await connected();
  await browser.post('/auth/logout', { app: there });
  await signedOut(t, sockets);
  for (const socket of other.sockets) assert.equal(await socket.outcome(create), 'ok');
  for (const { socket } of other.sockets) socket.close();
});

test('a webhook closes the sockets of whom it is about, on every process', async (t) => {
  const { sockets } = await connected();
  const other = await connected(person('u-2', USE));
  const answer = await send(there, { event: 'user.blocked', user_id: 'u-1' }, 'msg_sockets');
  assert.equal(answer.statusCode, 200);
  await signedOut(t, sockets);
  for (const socket of other.sockets) assert.equal(await socket.outcome(create), 'ok');
  await send(there, { event: 'auth.global_logout' }, 'msg_all_sockets');
  await signedOut(t, other.sockets);
});

test('an admin who signs somebody out closes their sockets on every process', async (t) => {
  const { sockets } = await connected();
  const { browser, sockets: own } = await connected(person('u-admin', USE, ['svc_admin']));
  const answer = await browser.post('/admin/users/u-1/sign-out', { app: there });
  assert.equal(answer.statusCode, 200);
  await signedOut(t, sockets);
  for (const socket of own) assert.equal(await socket.outcome(create), 'ok');
  for (const { socket } of own) socket.close();
});

test('who is signed out everywhere loses the sockets of all sign-ins', async (t) => {
  const all = [...(await connected()).sockets, ...(await connected()).sockets];
  const other = await connected(person('u-2', USE));
  await db.transaction().execute((trx) => endUserSessions(trx, 'u-1'));
  await signedOut(t, all);
  for (const socket of other.sockets) assert.equal(await socket.outcome(create), 'ok');
  for (const { socket } of other.sockets) socket.close();
});

test('the end of a session at the provider closes the sockets of its sign-ins alone', async (t) => {
  const [ended, kept] = [await connected(), await connected()];
  const session = { providerSessionId: 's-1', userId: 'u-1' };
  await db
    .updateTable('user_auth_sessions')
    .set({ provider_session_id: session.providerSessionId })
    .where('id', '=', ended.browser.sid)
    .execute();
  await db.transaction().execute((trx) => endProviderSession(trx, session));
  await signedOut(t, ended.sockets);
  for (const socket of kept.sockets) assert.equal(await socket.outcome(create), 'ok');
  for (const { socket } of kept.sockets) socket.close();
});

test('when all are signed out no socket with a cookie stays', async (t) => {
  const all = [...(await connected()).sockets, ...(await connected(person('u-2', USE))).sockets];
  const nobody = await SocketClient.open(url);
  // It needs no provider to tell who was signed out.
  provider.faults.set('userinfo', 'disconnect');
  await db.transaction().execute(endAllSessions);
  await signedOut(t, all);
  assert.equal(await nobody.outcome({ type: 'ping' }), 'ok');
  nobody.socket.close();
});

test('cleared rights are asked for again before the next message, on every instance', async () => {
  const { sockets } = await connected();
  provider.user = person('u-1');
  await db.transaction().execute((trx) => clearAccess(trx, { userId: 'u-1' }));
  for (const socket of sockets) {
    await until(async () => (await socket.outcome(create)) === 'permission_missing');
  }
  provider.user = olena;
  await db.transaction().execute((trx) => clearAccess(trx, 'everybody'));
  for (const socket of sockets) {
    await until(async () => (await socket.outcome(create)) === 'ok');
    socket.socket.close();
  }
});

test('a role that an admin sets is looked up again, and the provider has the last word', async () => {
  const { sockets } = await connected();
  provider.calls.length = 0;
  await db.transaction().execute((trx) => setCachedRole(trx, 'u-1', 'admin'));
  for (const socket of sockets) {
    assert.equal(await socket.outcome({ ...create, profile_id: 'diagnostics' }), 'admin_only');
  }
  await until(() => provider.count('userinfo') >= 2);
  for (const { socket } of sockets) socket.close();
});

test('the end of the lifetime of a sign-in ends its sockets', async (t) => {
  const { browser, sockets } = await connected();
  await sql`
    update user_auth_sessions set created_at = now() - interval '31 days'
    where id = ${browser.sid}`.execute(db);
  await db.transaction().execute((trx) => clearAccess(trx, { userId: 'u-1' }));
  await signedOut(t, sockets);
  const late = SocketClient.begin(url, { sid: browser.sid });
  assert.equal((await late.closed).code, 4401);
});

test("the provider's refusal of the tokens ends the sockets", async (t) => {
  const { browser, sockets } = await connected();
  await expire(browser);
  provider.expireRefreshTokens();
  assert.equal((await browser.get('/auth/me')).statusCode, 401);
  await signedOut(t, sockets);
});

test('while the provider is down nobody is signed out, and nothing changed is acted on', async () => {
  const { sockets } = await connected();
  provider.faults.set('userinfo', { status: 503 });
  for (const socket of sockets) assert.equal(await socket.outcome(create), 'ok');
  await db.transaction().execute((trx) => clearAccess(trx, { userId: 'u-1' }));
  for (const socket of sockets) {
    await until(async () => (await socket.outcome(create)) === 'provider_unavailable');
    assert.equal(await socket.outcome({ type: 'ping' }), 'ok');
  }
  const { sid } = await signedInWhileDown();
  const late = await SocketClient.open(url, { sid });
  assert.equal(await late.outcome(create), 'provider_unavailable');
  provider.faults.clear();
  for (const socket of [...sockets, late]) {
    assert.equal(await socket.outcome(create), 'ok');
    socket.socket.close();
  }
});

async function signedInWhileDown() {
  provider.faults.clear();
  const browser = await signedIn(here, olena);
  provider.faults.set('userinfo', 'disconnect');
  return browser;
}

test('a sign-out during the handshake is not missed', async (t) => {
  const browser = await signedIn(here, olena);
  const release = provider.holdNext('userinfo');
  const socket = await SocketClient.open(url, { sid: browser.sid });
  await until(() => provider.count('userinfo') === 1);
  await db.transaction().execute((trx) => endUserSessions(trx, 'u-1'));
  await signedOut(t, [socket]);
  release();
});

const ofSession = { session_id: 's-1' };
const changes = [
  create,
  { type: 'message.send', ...ofSession, text: 'Two rooms?' },
  { type: 'message.retry', ...ofSession },
  { type: 'memory.undo', ...ofSession, step_id: '00000000-0000-4000-8000-000000000000' },
];

for (const [name, receiver] of [
  ['this process', here],
  ['another process', there],
] as const) {
  for (const message of [...changes, { type: 'message.cancel', ...ofSession }]) {
    test(`${message.type} in flight changes nothing when ${name} is told of a block`, async () => {
      await db.deleteFrom('conversation_sessions').execute();
      const browser = await signedIn(here, person('u-1', [...USE, 'svc.memory.read_own']));
      const release = provider.holdNext('userinfo');
      const { sid } = browser;
      const socket = await SocketClient.open(url, { sid });
      socket.send(message);
      await until(() => provider.count('userinfo') === 1);
      const answer = await send(receiver, { event: 'user.blocked', user_id: 'u-1' });
      assert.equal(answer.statusCode, 200);
      release();
      assert.equal((await socket.closed).code, 4401);
      assert.deepEqual(await db.selectFrom('conversation_sessions').select('id').execute(), []);
    });
  }

  for (const message of changes) {
    test(`${message.type} in flight has the new rights when ${name} is told of them`, async () => {
      const browser = await signedIn(here, person('u-1', [...USE, 'svc.memory.read_own']));
      const release = provider.holdNext('userinfo');
      const { sid } = browser;
      const socket = await SocketClient.open(url, { sid });
      const outcome = socket.outcome(message);
      await until(() => provider.count('userinfo') === 1);
      const releaseAgain = provider.holdNext('userinfo');
      await send(receiver, { event: 'client.roles_changed', user_id: 'u-1' });
      release();
      await until(() => provider.count('userinfo') === 2);
      provider.user = person('u-1');
      releaseAgain();
      assert.equal(await outcome, 'permission_missing');
      socket.socket.close();
    });
  }
}

test('a client that follows the rule does not come again after it is signed out', async () => {
  const browser = await signedIn(here, olena);
  const client = new ReconnectingClient(urls, { sid: browser.sid }, () => {});
  await until(() => client.current?.socket.readyState === WebSocket.OPEN);
  await browser.post('/auth/logout', { app: there });
  await until(() => client.hasStopped);
  assert.deepEqual([client.codes, client.delaysMs], [[4401], []]);
});

test('a client that follows the rule goes on at another instance after a restart', async () => {
  const restarting = await instance();
  const browser = await signedIn(here, olena);
  const addresses = [await listening(restarting), otherUrl];
  const client = new ReconnectingClient(addresses, { sid: browser.sid }, () => {});
  await until(() => client.current?.socket.readyState === WebSocket.OPEN);
  await restarting.close();
  await until(() => client.codes.length === 1);
  await until(() => client.current?.socket.readyState === WebSocket.OPEN);
  assert.equal(await client.current?.outcome(create), 'ok');
  assert.deepEqual(client.codes, [1012]);
  assert.ok(client.delaysMs.every((delayMs) => delayMs <= 2000));
  await browser.post('/auth/logout');
  await until(() => client.hasStopped);
});

// The embedded database has no connection for notifications that could break.
if (engine === 'postgres') {
  /** Breaks the connections for notifications of all instances, and gives how many there were. */
  const breakListeners = async () => {
    const { rows } = await sql`
      select pg_terminate_backend(pid) from pg_stat_activity
      where datname = current_database() and pid <> pg_backend_pid()
        and (query ilike 'listen %' or query = 'select 1')`.execute(db);
    return rows.length;
  };

  test('a sign-out while no notification can be heard is found out after it', async (t) => {
    const { sockets } = await connected();
    assert.ok((await breakListeners()) >= 2);
    await db.transaction().execute((trx) => endUserSessions(trx, 'u-1'));
    await signedOut(t, sockets);
  });

  test('notifications are heard again after their connection broke', async (t) => {
    await breakListeners();
    const { browser, sockets } = await connected();
    await browser.post('/auth/logout');
    await signedOut(t, sockets);
  });
}
