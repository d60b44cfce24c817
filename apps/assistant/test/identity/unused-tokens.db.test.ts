import assert from 'node:assert/strict';
import { beforeEach, test } from 'node:test';
import { Browser, openAssistant } from '../helpers/assistant.ts';
import { until } from '../helpers/until.ts';
import { OLENA } from '../scripted-provider.ts';
import { SECRET, send } from '../webhooks/sender.ts';

const { db, provider, instance, signedIn, row, expire } = await openAssistant({
  IDP_WEBHOOK_SECRET: SECRET,
});
const app = await instance();
const second = await instance();

beforeEach(async () => {
  provider.reset();
  await db.deleteFrom('user_auth_sessions').execute();
});

/** The access and the refresh token that the provider gave last. */
const latest = () => provider.issued.slice(-2);

const areRevoked = (tokens: readonly string[]) =>
  tokens.every((token) => provider.revoked.includes(token));

/** A request that waits for the answer to its refresh; it goes on when `answer` is called. */
async function refreshing(browser: Browser, at: typeof app) {
  await expire(browser);
  provider.calls.length = 0;
  const answer = provider.holdNext('token');
  const cookies = { svc_auth_session: browser.sid };
  const request = at.inject({ url: '/auth/me', cookies });
  await until(() => provider.count('token', 'refresh_token') === 1);
  return { answer, status: request.then(({ statusCode }) => statusCode) };
}

test('tokens of a refresh that a sign-out overtook are revoked', async () => {
  const browser = await signedIn(app);
  const { answer, status } = await refreshing(browser, app);
  assert.equal((await browser.post('/auth/logout', { app: second })).statusCode, 200);
  answer();
  assert.equal(await status, 401);
  const tokens = latest();
  await until(() => areRevoked(tokens));
});

test('those of one that a new sign-in of the browser overtook are not: they may share its grant', async () => {
  const own = await instance();
  const browser = await signedIn(app);
  const replaced = browser.sid;
  const { answer, status } = await refreshing(browser, own);
  assert.equal((await browser.signIn(provider)).statusCode, 302);
  assert.equal(await row(replaced), undefined);
  answer();
  assert.equal(await status, 401);
  // It ends what it began before.
  await own.close();
  assert.deepEqual(provider.revoked, []);
  assert.equal((await browser.get('/auth/me')).statusCode, 200);
});

test('those of one that another process overtook are not: the session goes on', async () => {
  const own = await instance();
  const browser = await signedIn(app);
  provider.token.rotate = false;
  const { answer, status } = await refreshing(browser, own);
  await db.updateTable('user_auth_sessions').set({ refresh_lease_until: null }).execute();
  assert.equal((await browser.get('/auth/me')).statusCode, 200);
  answer();
  assert.equal(await status, 200);
  await own.close();
  assert.deepEqual(provider.revoked, []);
});

const refusals: Record<string, { arrange: () => void | Promise<void>; status: number }> = {
  'whom the provider refuses to describe': {
    arrange: () => void provider.faults.set('userinfo', { status: 401 }),
    status: 400,
  },
  'without an email': {
    arrange: () => void (provider.user = { ...OLENA, email: undefined }),
    status: 403,
  },
  'whom the provider does not describe now': {
    arrange: () => void provider.faults.set('userinfo', { status: 500 }),
    status: 503,
  },
};

for (const [name, { arrange, status }] of Object.entries(refusals)) {
  test(`tokens of a sign-in of somebody ${name} are revoked`, async () => {
    await arrange();
    const answer = await new Browser(app).signIn(provider);
    assert.equal(answer.statusCode, status, answer.body);
    const tokens = latest();
    await until(() => areRevoked(tokens));
  });
}

test('tokens of a sign-in that was revoked on its way are revoked', async () => {
  const browser = new Browser(app);
  const callback = await browser.begin(provider);
  const release = provider.holdNext('userinfo');
  const answer = browser.get(callback);
  await until(() => provider.count('userinfo') === 1);
  await send(second, { event: 'user.blocked', user_id: 'u-1' });
  release();
  assert.equal((await answer).statusCode, 400);
  const tokens = latest();
  await until(() => areRevoked(tokens));
});

test('those of one that fails while the browser is signed in are not: its session may share their grant', async () => {
  const own = await instance();
  const browser = await signedIn(own);
  provider.faults.set('userinfo', { status: 401 });
  assert.equal((await browser.signIn(provider)).statusCode, 400);
  await own.close();
  assert.deepEqual(provider.revoked, []);
  provider.faults.clear();
  assert.equal((await browser.get('/auth/me', { app })).statusCode, 200);
});
