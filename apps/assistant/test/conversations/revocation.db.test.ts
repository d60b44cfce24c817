import type { Browser } from '../helpers/assistant.ts';
import assert from 'node:assert/strict';
import { beforeEach, test, type TestContext } from 'node:test';
import { until } from '@oselya/testing';
import type { Server } from '@oselya/kit';
import { createChunk, createStreamedResponse, createToolCallChunk } from '@oselya/model/testing';
import { sql } from 'kysely';
import {
  clearAccess,
  endAllSessions,
  endProviderSession,
  endUserSessions,
} from '../../src/identity/revocation.ts';
import { createPerson } from '../helpers/people.ts';
import { listing } from '../helpers/scripted-collector.ts';
import { createGate } from '../helpers/scripted-model.ts';
import { SocketClient } from '../helpers/socket-client.ts';
import { SECRET, send } from '../webhooks/signing.ts';
import {
  CHAT_PERMISSIONS,
  createToolScript,
  listen,
  openRawClient,
  openRawSession,
  openStage,
} from './stage.ts';

const stage = await openStage({ IDP_WEBHOOK_SECRET: SECRET, IDP_USER_MAX_AGE_SECONDS: '' });
const { collector, db, engine, expireToken, createInstance, model, provider, signInUser } = stage;
const [firstApp, secondApp] = [stage.app, await createInstance()];
const { url } = stage;
const urls = [url, await listen(secondApp)];

const USE_PERMISSIONS = ['svc.profiles.use'] as const;
const olena = createPerson('u-1', { permissions: [...USE_PERMISSIONS] });
const taras = createPerson('u-2', { permissions: [...USE_PERMISSIONS] });
const createMessage = { type: 'session.create' };

beforeEach(() => provider.reset());

/** Signs a user in and opens a socket to each process. */
async function connectSockets(user: object = olena) {
  const browser = await signInUser(firstApp, user);
  const sockets = await Promise.all(
    urls.map((address) => SocketClient.open(address, { sid: browser.sid })),
  );
  for (const socket of sockets) assert.equal(await socket.outcome(createMessage), 'ok');
  return { browser, sockets };
}

/** Waits until all sockets are closed with the signed-out code. */
async function waitUntilSignedOut(sockets: SocketClient[]) {
  await until(() => sockets.every(({ isClosed }) => isClosed));
  for (const { closed } of sockets) assert.equal((await closed).code, 4401);
}

type SignOutMethod = { run: (browser: Browser) => Promise<unknown>; isOne?: true };

/** Methods of signing a user out. Those with `isOne` keep the user's other sign-ins. */
const signOutMethods: Record<string, SignOutMethod> = {
  'A logout': { run: (browser) => browser.post('/auth/logout', { app: secondApp }), isOne: true },
  'A webhook': {
    run: () => send(secondApp, { event: 'user.blocked', user_id: 'u-1' }, 'msg_sockets'),
  },
  'The end of all sign-ins of a user': {
    run: () => db.transaction().execute((trx) => endUserSessions(trx, 'u-1')),
  },
  'The end of a session of the provider': {
    async run({ sid }) {
      await sql`update user_auth_sessions set provider_session_id = 's-1' where id = ${sid}`.execute(
        db,
      );
      const session = { providerSessionId: 's-1', userId: 'u-1' };
      await db.transaction().execute((trx) => endProviderSession(trx, session));
    },
    isOne: true,
  },
  'An admin': {
    async run() {
      const admin = await signInUser(firstApp, createPerson('u-admin', { isAdmin: true }));
      const response = await admin.post('/admin/users/u-1/sign-out', { app: secondApp });
      assert.equal(response.statusCode, 200);
    },
  },
};

for (const [label, { run, isOne }] of Object.entries(signOutMethods)) {
  test(`${label} closes the sockets of the user, on every process`, async () => {
    const { browser, sockets } = await connectSockets();
    const otherSignIn = await connectSockets(isOne ? olena : taras);
    await run(browser);
    await waitUntilSignedOut(sockets);
    for (const socket of otherSignIn.sockets) {
      assert.equal(await socket.outcome(createMessage), 'ok');
      socket.socket.close();
    }
  });
}

test('A global sign-out closes all sockets with a cookie', async () => {
  const openSockets = [
    ...(await connectSockets()).sockets,
    ...(await connectSockets(taras)).sockets,
  ];
  const anonymous = await SocketClient.open(url);
  provider.faults.set('userinfo', 'disconnect');
  await db.transaction().execute(endAllSessions);
  await waitUntilSignedOut(openSockets);
  assert.equal(await anonymous.outcome({ type: 'ping' }), 'ok');
  anonymous.socket.close();
});

test('Cleared permissions are resolved again before the next message, on every process', async () => {
  const { sockets } = await connectSockets();
  provider.user = createPerson('u-1');
  await db.transaction().execute((trx) => clearAccess(trx, { userId: 'u-1' }));
  for (const socket of sockets) {
    await until(async () => (await socket.outcome(createMessage)) === 'permission_missing');
  }
  provider.user = olena;
  await db.transaction().execute((trx) => clearAccess(trx, 'all-users'));
  for (const socket of sockets) {
    await until(async () => (await socket.outcome(createMessage)) === 'ok');
    socket.socket.close();
  }
});

test('The end of the lifetime of a sign-in closes its sockets', async () => {
  const { browser, sockets } = await connectSockets();
  await sql`
    update user_auth_sessions set created_at = now() - interval '31 days'
    where id = ${browser.sid}`.execute(db);
  await db.transaction().execute((trx) => clearAccess(trx, { userId: 'u-1' }));
  await waitUntilSignedOut(sockets);
  const lateSocket = SocketClient.begin(url, { sid: browser.sid });
  assert.equal((await lateSocket.closed).code, 4401);
});

test('A provider that rejects the tokens ends the sockets', async () => {
  const { browser, sockets } = await connectSockets();
  await expireToken(browser);
  provider.expireRefreshTokens();
  assert.equal((await browser.get('/auth/me')).statusCode, 401);
  await waitUntilSignedOut(sockets);
});

test('Sign-ins and permissions stay during an outage of the provider', async () => {
  const { sockets } = await connectSockets();
  provider.faults.set('userinfo', { status: 503 });
  for (const socket of sockets) assert.equal(await socket.outcome(createMessage), 'ok');
  await db.transaction().execute((trx) => clearAccess(trx, { userId: 'u-1' }));
  for (const socket of sockets) {
    await until(async () => (await socket.outcome(createMessage)) === 'provider_unavailable');
    assert.equal(await socket.outcome({ type: 'ping' }), 'ok');
  }
  provider.faults.clear();
  const { sid } = await signInUser(firstApp, olena);
  provider.faults.set('userinfo', 'disconnect');
  const lateSocket = await SocketClient.open(url, { sid });
  assert.equal(await lateSocket.outcome(createMessage), 'provider_unavailable');
  provider.faults.clear();
  for (const socket of [...sockets, lateSocket]) {
    assert.equal(await socket.outcome(createMessage), 'ok');
    socket.socket.close();
  }
});

/** Opens a socket whose user is not resolved until `release` is called. */
async function openPendingSocket() {
  const permissions = [...USE_PERMISSIONS, 'svc.memory.read_own' as const];
  const { sid } = await signInUser(firstApp, createPerson('u-1', { permissions }));
  const release = provider.holdNext('userinfo');
  return { socket: await SocketClient.open(url, { sid }), release };
}

test('A sign-out during the handshake closes the socket', async () => {
  const { socket, release } = await openPendingSocket();
  await until(() => provider.count('userinfo') === 1);
  await db.transaction().execute((trx) => endUserSessions(trx, 'u-1'));
  await waitUntilSignedOut([socket]);
  release();
});

const sessionMembers = { session_id: 's-1' };
const changingMessages = [
  createMessage,
  { type: 'message.send', ...sessionMembers, text: 'Two rooms?' },
  { type: 'message.retry', ...sessionMembers },
  { type: 'memory.undo', ...sessionMembers, step_id: '00000000-0000-4000-8000-000000000000' },
];

for (const message of [...changingMessages, { type: 'message.cancel', ...sessionMembers }]) {
  test(`A pending ${message.type} changes nothing after a block on another process`, async () => {
    await db.deleteFrom('conversation_sessions').execute();
    const { socket, release } = await openPendingSocket();
    socket.send(message);
    await until(() => provider.count('userinfo') === 1);
    const response = await send(secondApp, { event: 'user.blocked', user_id: 'u-1' });
    assert.equal(response.statusCode, 200);
    release();
    assert.equal((await socket.closed).code, 4401);
    assert.deepEqual(await db.selectFrom('conversation_sessions').select('id').execute(), []);
  });
}

for (const message of changingMessages.slice(0, 2)) {
  test(`A pending ${message.type} gets permissions that change on another process`, async () => {
    const { socket, release } = await openPendingSocket();
    const outcomePromise = socket.outcome(message);
    await until(() => provider.count('userinfo') === 1);
    const releaseAgain = provider.holdNext('userinfo');
    await send(secondApp, { event: 'client.roles_changed', user_id: 'u-1' });
    release();
    await until(() => provider.count('userinfo') === 2);
    provider.user = createPerson('u-1');
    releaseAgain();
    assert.equal(await outcomePromise, 'permission_missing');
    socket.socket.close();
  });
}

// Only PostgreSQL has a separate connection for notifications.
if (engine === 'postgres') {
  /** Terminates the notification connections of all instances and returns their number. */
  const breakListeners = async () => {
    const { rows } = await sql`
      select pg_terminate_backend(pid) from pg_stat_activity
      where datname = current_database() and pid <> pg_backend_pid()
        and (query ilike 'listen %' or query = 'select 1')`.execute(db);
    return rows.length;
  };

  test('A sign-out during an outage of notifications closes the sockets after it', async () => {
    const { sockets } = await connectSockets();
    assert.ok((await breakListeners()) >= 2);
    await db.transaction().execute((trx) => endUserSessions(trx, 'u-1'));
    await waitUntilSignedOut(sockets);
  });
}

/** Starts an answer that waits for `restGate`. */
async function startAnswer(t: Parameters<typeof openRawClient>[0], name: string) {
  const sid = await stage.signIn(name);
  const { client: rawClient, id } = await openRawSession(t, { url, sid });
  const restGate = createGate();
  t.after(restGate.open);
  model.scripts.push({ words: ['Ще ', restGate.opened, 'дещо'] });
  await rawClient.say(id, 'Розкажи');
  await rawClient.waitForText('Ще ');
  return { sid, rawClient, id, restGate };
}

/** Returns a session's stored answer. */
const findStoredAnswer = (sessionId: string) =>
  db
    .selectFrom('conversation_messages')
    .select(['content', 'status', 'problem'])
    .where('session_id', '=', sessionId)
    .where('role', '=', 'assistant')
    .executeTakeFirst();

/** Waits until an answer ends because its user has signed out. */
async function waitForSignedOutEnd(sessionId: string): Promise<void> {
  await until(async () => (await findStoredAnswer(sessionId)) !== undefined);
  assert.partialDeepStrictEqual(await findStoredAnswer(sessionId), {
    content: 'Ще ',
    status: 'failed',
    problem: { code: 'not_signed_in' },
  });
}

const signOut = (app: Server, sid: string) =>
  app.inject({ method: 'POST', url: '/auth/logout', cookies: { svc_auth_session: sid } });

test('Closing the socket does not end the answer, and a sign-out still does', async (t) => {
  const { rawClient, id, restGate } = await startAnswer(t, 'u-oksana');
  rawClient.socket.close();
  await rawClient.closed;
  restGate.open();
  await until(async () => (await findStoredAnswer(id)) !== undefined);
  assert.partialDeepStrictEqual(await findStoredAnswer(id), { content: 'Ще дещо', status: null });

  const signedOutAnswer = await startAnswer(t, 'u-orest');
  signedOutAnswer.rawClient.socket.close();
  await signedOutAnswer.rawClient.closed;
  await signOut(secondApp, signedOutAnswer.sid);
  await waitForSignedOutEnd(signedOutAnswer.id);
});

/** Scripts a search and a second tool call. The second call waits until the returned function is called. */
function scriptTwoTools(
  t: TestContext,
  secondCall: { name: string; arguments: string },
): () => void {
  collector.listings = [listing(1)];
  const restGate = createGate();
  t.after(restGate.open);
  const answer = createStreamedResponse([
    () => restGate.opened,
    createToolCallChunk({ id: 'second', ...secondCall }),
    createChunk({}, { finishReason: 'tool_calls' }),
  ]);
  model.scripts.push(createToolScript('search_listings', { query: 'дім' }), { answer });
  return restGate.open;
}

/** Waits for an answer whose first tool call succeeded and whose second was denied. */
async function waitForDeniedTool(rawClient: SocketClient, summary: string): Promise<void> {
  await rawClient.waitFor('message.completed');
  const tools = rawClient.getFrames('tool.finished').map(({ tool }) => tool);
  assert.equal(tools.length, 2);
  assert.partialDeepStrictEqual(tools, [{ status: 'done' }, { status: 'failed', summary }]);
}

test('A tool does not run after the loss of svc.tools.use', async (t) => {
  const { client: ivan, id } = await openRawSession(t, { url, sid: await stage.signIn('u-ivan') });
  const detailsCall = { name: 'get_listing', arguments: '{"listing_id":1}' };
  const releaseSecondTool = scriptTwoTools(t, detailsCall);
  await ivan.say(id, 'Шукай');
  await ivan.waitFor('tool.finished');
  const requestCount = collector.requests.length;
  assert.equal(await ivan.outcome(createMessage), 'ok');

  provider.user = createPerson('u-ivan', { permissions: ['svc.memory.read_own'] });
  await db.transaction().execute((trx) => clearAccess(trx, { userId: 'u-ivan' }));
  await until(async () => (await ivan.outcome(createMessage)) === 'permission_missing');
  releaseSecondTool();
  await waitForDeniedTool(ivan, 'it needs svc.tools.use');
  assert.equal(collector.requests.length, requestCount);
});

test('A profile for admins runs no tool after the loss of the role', async (t) => {
  const { sid } = await signInUser(firstApp, createPerson('u-other-admin', { isAdmin: true }));
  const adminClient = await openRawClient(t, { url, sid });
  const lookupCall = { name: 'lookup_endpoint', arguments: '{"words":"http"}' };
  const releaseSecondTool = scriptTwoTools(t, lookupCall);
  const createAdminSession = { ...createMessage, profile_id: 'diagnostics' };
  const { session_id: id } = await adminClient.ask(createAdminSession);
  await adminClient.say(String(id), 'Чому не працює?');
  await adminClient.waitFor('tool.finished');

  provider.user = createPerson('u-other-admin', { permissions: [...CHAT_PERMISSIONS] });
  await db.transaction().execute((trx) => clearAccess(trx, { userId: 'u-other-admin' }));
  await until(async () => (await adminClient.outcome(createAdminSession)) === 'admin_only');
  releaseSecondTool();
  await waitForDeniedTool(
    adminClient,
    'For administrators only. This profile needs the role `admin`. Start a session with a different profile.',
  );
});
