import assert from 'node:assert/strict';
import { beforeEach, test } from 'node:test';
import { sql } from 'kysely';
import { type Browser, openAssistant } from '../helpers/assistant.ts';
import { until } from '../helpers/until.ts';

const { db, provider, instance, signedIn, row, expire } = await openAssistant();
const app = await instance();
const second = await instance();

beforeEach(() => provider.reset());

/** Requests of one browser from all instances at once. They must not change its cookies meanwhile. */
function many({ sid }: Browser, count: number) {
  return Array.from({ length: count }, (_, index) =>
    (index % 2 === 0 ? app : second).inject({
      url: '/auth/me',
      cookies: { svc_auth_session: sid },
    }),
  );
}

const count = (statuses: { statusCode: number }[], status: number) =>
  statuses.filter((answer) => answer.statusCode === status).length;

test('50 requests on two instances refresh an expired token once', async () => {
  const browser = await signedIn(app);
  await expire(browser);
  const before = await row(browser.sid);
  const release = provider.holdNext('token');
  const requests = many(browser, 50);
  await until(() => provider.count('token') === 1);
  // Nobody holds a connection: other requests are answered while the provider takes its time.
  for (const other of [app, second]) assert.equal((await other.inject('/health')).statusCode, 200);
  release();
  const answers = await Promise.all(requests);
  assert.equal(count(answers, 200), 50);
  assert.equal(provider.count('token', 'refresh_token'), 1);
  const after = await row(browser.sid);
  assert.notEqual(after?.access_token_enc, before?.access_token_enc);
  assert.notEqual(after?.refresh_token_enc, before?.refresh_token_enc);
  assert.equal(after?.refresh_lease_until, null);
  assert.ok(after?.expires_at && after.expires_at.getTime() > Date.now());

  await expire(browser);
  assert.equal((await browser.get('/auth/me')).statusCode, 200, 'the rotated token works');
});

test('a refresh without a new refresh token keeps the old one', async () => {
  const browser = await signedIn(app);
  provider.token.rotate = false;
  for (let time = 0; time < 2; time += 1) {
    await expire(browser);
    assert.equal((await browser.get('/auth/me')).statusCode, 200);
  }
  assert.equal(provider.count('token', 'refresh_token'), 2);
});

test("the provider's refusal of a refresh signs out, once for all requests", async () => {
  const browser = await signedIn(app);
  await expire(browser);
  provider.expireRefreshTokens();
  const release = provider.holdNext('token');
  const requests = many(browser, 10);
  await until(() => provider.count('token') === 1);
  release();
  const answers = await Promise.all(requests);
  assert.equal(count(answers, 401), 10);
  assert.equal(provider.count('token'), 1);
  for (const answer of answers) {
    assert.equal(answer.json().code, 'not_signed_in');
    assert.deepEqual(
      answer.cookies.map(({ name, value, maxAge }) => [name, value, maxAge]),
      [['svc_auth_session', '', 0]],
    );
  }
  assert.equal(await row(browser.sid), undefined);
});

for (const [name, fault] of [
  ['fails', { status: 500 }],
  ['is overloaded', { status: 429, body: '{"error":"slow_down"}' }],
  ['is being restarted behind a proxy', { status: 404, body: '<html>' }],
  ['does not know this client', { status: 401, body: '{"error":"invalid_client"}' }],
  ['talks nonsense', { status: 200, body: '<html>' }],
  ['redirects', { status: 302, headers: { location: 'http://127.0.0.1:1/' } }],
  ['hangs up', 'disconnect'],
] as const) {
  test(`a provider that ${name} signs nobody out`, async () => {
    const browser = await signedIn(app);
    await expire(browser);
    provider.faults.set('token', fault);
    const before = await row(browser.sid);
    const answers = await Promise.all(many(browser, 6));
    assert.equal(count(answers, 503), 6);
    for (const answer of answers) {
      assert.equal(answer.json().code, 'provider_unavailable');
      assert.equal(answer.headers['retry-after'], '5');
      assert.deepEqual(answer.cookies, []);
    }
    assert.ok(before !== undefined);
    assert.deepEqual(await row(browser.sid), before);
    provider.faults.clear();
    assert.equal((await browser.get('/auth/me')).statusCode, 200);
  });
}

for (const status of [400, 401, 403]) {
  test(`a provider that answers discovery with ${status} signs nobody out`, async () => {
    const fresh = await instance({ IDP_DISCOVERY: 'true' });
    const browser = await signedIn(app);
    const me = () => browser.get('/auth/me', { app: fresh });
    provider.publishMetadata();
    provider.faults.set('discovery', { status, body: '{"error":"invalid_grant"}' });
    const before = await row(browser.sid);
    assert.equal((await me()).statusCode, 503, 'with a token that is valid');
    await expire(browser);
    assert.equal((await me()).statusCode, 503, 'with a token that has expired');
    const after = await row(browser.sid);
    assert.equal(after?.access_token_enc, before?.access_token_enc);
    assert.equal(after?.refresh_lease_until, null);
    provider.faults.clear();
    assert.equal((await me()).statusCode, 200);
  });
}

test('the lease is for one call: it is taken when discovery and the keys have come', async () => {
  const fresh = await instance({ IDP_DISCOVERY: 'true' });
  const browser = await signedIn(app);
  await expire(browser);
  provider.publishMetadata();
  const answerDiscovery = provider.holdNext('discovery');
  const answerKeys = provider.holdNext('keys');
  const answerToken = provider.holdNext('token');
  const request = browser.get('/auth/me', { app: fresh });
  await until(() => provider.count('discovery') === 1);
  assert.equal((await row(browser.sid))?.refresh_lease_until, null);
  answerDiscovery();
  await until(() => provider.count('keys') === 1);
  assert.equal((await row(browser.sid))?.refresh_lease_until, null);
  answerKeys();
  await until(() => provider.count('token') === 1);
  assert.notEqual((await row(browser.sid))?.refresh_lease_until, null);
  answerToken();
  assert.equal((await request).statusCode, 200);
});

test('refreshed tokens that the database does not take at once are not lost', async (context) => {
  // Unlike a table, a sequence keeps its count when the failed statement is undone.
  await sql`create sequence failures`.execute(db);
  await sql`
    create function fail_once() returns trigger language plpgsql as $$
    begin
      if nextval('failures') = 1 then raise exception 'the database fails over'; end if;
      return new;
    end $$`.execute(db);
  await sql`
    create trigger fail_once before update of access_token_enc on user_auth_sessions
    for each row execute function fail_once()`.execute(db);
  context.after(async () => {
    await sql`drop function fail_once cascade`.execute(db);
    await sql`drop sequence failures`.execute(db);
  });
  const browser = await signedIn(app);
  await expire(browser);
  assert.equal((await browser.get('/auth/me')).statusCode, 200);
  const tries = await sql<{
    count: string;
  }>`select last_value::text as count from failures`.execute(db);
  assert.deepEqual(tries.rows, [{ count: '2' }]);
  await expire(browser);
  assert.equal((await browser.get('/auth/me')).statusCode, 200, 'the rotated token was kept');
  assert.equal(provider.count('token'), 2);
});

test('those who wait for a refresh that is not answered do not try it again', async () => {
  const reads = [0, 0];
  const others: (typeof app)[] = [];
  for (const index of reads.keys()) {
    const other = await instance({}, (statement) => {
      if (statement === 'read') reads[index] = (reads[index] ?? 0) + 1;
    });
    others.push(other);
  }
  const browser = await signedIn(app);
  const { sid } = browser;
  await expire(browser);
  provider.faults.set('token', { status: 503 });
  const release = provider.holdNext('token');
  const ask = (at: typeof app) =>
    at.inject({ url: '/auth/me', cookies: { svc_auth_session: sid } });
  const requests = [ask(app)];
  await until(() => provider.count('token') === 1);
  reads.fill(0);
  requests.push(...others.map(ask));
  // Each of them has found the session, and then that somebody refreshes it.
  await until(() => reads.every((times) => times >= 2));
  release();
  assert.equal(count(await Promise.all(requests), 503), 3);
  assert.equal(provider.count('token'), 1);
});

test('a provider that is too slow is given up in time', async () => {
  const hasty = await instance({ IDP_TIMEOUT_MS: '100' });
  const browser = await signedIn(app);
  await expire(browser);
  const release = provider.holdNext('token');
  const slow = await browser.get('/auth/me', { app: hasty });
  assert.equal(slow.statusCode, 503);
  release();
  assert.notEqual(await row(browser.sid), undefined);
});

test('a loser whose token was refused uses what the winner stored', async () => {
  const browser = await signedIn(app);
  await expire(browser);
  const release = provider.holdNext('token');
  const loser = browser.get('/auth/me');
  await until(() => provider.count('token') === 1);
  // As if the loser had been paused for longer than its lease lasts.
  await db.updateTable('user_auth_sessions').set({ refresh_lease_until: null }).execute();
  assert.equal((await browser.get('/auth/me', { app: second })).statusCode, 200);
  release();
  assert.equal((await loser).statusCode, 200);
  assert.equal(provider.count('token'), 2, 'the second was refused: its token was redeemed before');
  assert.equal((await browser.get('/auth/me')).statusCode, 200);
});

test('a lease whose holder died is taken over', async () => {
  const browser = await signedIn(app);
  await expire(browser);
  await sql`
    update user_auth_sessions set refresh_lease_until = now() + interval '300 milliseconds'
    where id = ${browser.sid}`.execute(db);
  assert.equal((await browser.get('/auth/me')).statusCode, 200);
  assert.equal(provider.count('token'), 1);
});

test('who gives a lease back that has run out leaves the next one where it is', async () => {
  const browser = await signedIn(app);
  const { sid } = browser;
  await expire(browser);
  provider.faults.set('token', { status: 503 });
  const release = provider.holdNext('token');
  const request = app.inject({ url: '/auth/me', cookies: { svc_auth_session: sid } });
  await until(() => provider.count('token') === 1);
  // As another process takes it, when the first one's has ended.
  await sql`
    update user_auth_sessions set refresh_lease_until = now() + interval '1 minute'
    where id = ${sid}`.execute(db);
  const taken = await row(sid);
  release();
  assert.equal((await request).statusCode, 503);
  assert.deepEqual(await row(sid), taken);
});

test('a logout during a refresh stays a logout', async () => {
  const browser = await signedIn(app);
  const { sid } = browser;
  await expire(browser);
  const release = provider.holdNext('token');
  const request = app.inject({ url: '/auth/me', cookies: { svc_auth_session: sid } });
  await until(() => provider.count('token') === 1);
  assert.equal((await browser.post('/auth/logout', { app: second })).statusCode, 200);
  release();
  assert.equal((await request).statusCode, 401);
  assert.equal(await row(sid), undefined);
});

test('a refused access token is refreshed once and then works', async () => {
  const browser = await signedIn(app);
  provider.expireAccessTokens();
  const answers = await Promise.all(many(browser, 10));
  assert.equal(count(answers, 200), 10);
  assert.equal(provider.count('token'), 1);
});

test('a provider that gives no refresh token signs in until the access token expires', async () => {
  provider.token.extra = { refresh_token: undefined };
  const browser = await signedIn(app);
  assert.equal((await browser.get('/auth/me')).statusCode, 200);
  await expire(browser);
  assert.equal((await browser.get('/auth/me')).statusCode, 401);
  assert.equal(provider.count('token'), 0);
});
