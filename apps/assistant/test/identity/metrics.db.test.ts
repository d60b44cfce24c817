import assert from 'node:assert/strict';
import { beforeEach, test } from 'node:test';
import { openAssistant } from '../helpers/assistant.ts';
import { giveIdTokens } from '../helpers/signing-key.ts';
import { until } from '../helpers/until.ts';

const { provider, instance, signedIn, expire } = await openAssistant();

beforeEach(() => provider.reset());

/** The samples of an instance's metrics whose names begin so, without those of histogram buckets. */
async function figures(app: Awaited<ReturnType<typeof instance>>, name: string) {
  const { body } = await app.inject('/metrics');
  const lines = body.split('\n').filter((line) => line.startsWith(name));
  return Object.fromEntries(
    lines
      .filter((line) => !/_(bucket|sum)\{/.test(line))
      .map((line) => {
        const space = line.lastIndexOf(' ');
        return [line.slice(name.length, space), Number(line.slice(space + 1))];
      }),
  );
}

test('metrics are for holders of the token, where there is one', async () => {
  const app = await instance({ METRICS_TOKEN: 'a-token-of-metrics' });
  const { cookies } = await signedIn(app);
  const request = { url: '/metrics', cookies: Object.fromEntries(cookies) };
  assert.equal((await app.inject(request)).statusCode, 401);
  const headers = { authorization: 'Bearer a-token-of-metrics' };
  assert.equal((await app.inject({ ...request, headers })).statusCode, 200);
});

test('sign-ins are counted by their outcome', async () => {
  const app = await instance();
  await signedIn(app);
  await app.inject('/auth/callback?state=x');
  provider.faults.set('token', { status: 400 });
  await signedIn(app);
  provider.faults.delete('token');
  provider.faults.set('userinfo', { status: 500 });
  await signedIn(app);
  assert.deepEqual(await figures(app, 'assistant_sign_ins_total'), {
    '{outcome="ok"}': 1,
    '{outcome="login_not_valid"}': 1,
    '{outcome="token_exchange_failed"}': 1,
    '{outcome="provider_unavailable"}': 1,
  });
});

test('refreshes are counted by their outcome, once for all who waited on one process', async () => {
  const app = await instance();
  const second = await instance();
  const browser = await signedIn(app);
  const { sid } = browser;
  await expire(browser);
  const release = provider.holdNext('token');
  const requests = [app, app, second, second].map((one) =>
    one.inject({ url: '/auth/me', cookies: { svc_auth_session: sid } }),
  );
  await until(() => provider.count('token') === 1);
  release();
  await Promise.all(requests);
  const [first, other] = [
    await figures(app, 'assistant_token_refreshes_total'),
    await figures(second, 'assistant_token_refreshes_total'),
  ];
  const both = { ...first, ...other };
  assert.equal(both['{outcome="refreshed"}'], 1);
  assert.ok((both['{outcome="waited"}'] ?? 0) <= 1);

  await expire(browser);
  provider.faults.set('token', { status: 503 });
  await browser.get('/auth/me');
  provider.faults.clear();
  provider.expireRefreshTokens();
  await browser.get('/auth/me');
  const last = await figures(app, 'assistant_token_refreshes_total');
  assert.equal(last['{outcome="unavailable"}'], 1);
  assert.equal(last['{outcome="refused"}'], 1);
});

test('each request to the provider is measured, by what it asked for and how it ended', async () => {
  const app = await instance();
  const browser = await signedIn(app);
  await expire(browser);
  await browser.get('/auth/me');
  provider.faults.set('revoke', { status: 500 });
  await browser.post('/auth/logout');
  const name = 'assistant_provider_request_duration_seconds_count';
  const revoked = '{operation="revoke",outcome="unavailable"}';
  await until(async () => (await figures(app, name))[revoked] === 2);
  assert.deepEqual(await figures(app, name), {
    '{operation="token",outcome="ok"}': 1,
    '{operation="userinfo",outcome="ok"}': 2,
    '{operation="refresh",outcome="ok"}': 1,
    '{operation="revoke",outcome="unavailable"}': 2,
  });
  provider.faults.clear();
  const discovering = await instance({ IDP_DISCOVERY: 'true' });
  await discovering.inject('/auth/login');
  provider.publishMetadata();
  await giveIdTokens(provider);
  await signedIn(discovering);
  assert.deepEqual(await figures(discovering, name), {
    '{operation="discovery",outcome="unavailable"}': 1,
    '{operation="discovery",outcome="ok"}': 1,
    '{operation="keys",outcome="ok"}': 1,
    '{operation="token",outcome="ok"}': 1,
    '{operation="userinfo",outcome="ok"}': 1,
  });
});

test('sessions that end early are counted by the reason', async () => {
  const app = await instance();
  const browser = await signedIn(app);
  await browser.signIn(provider);
  const refused = await signedIn(app);
  const own = (await browser.get('/auth/sessions'))
    .json()
    .find(({ current }: { current: boolean }) => !current);
  await browser.request('DELETE', `/auth/sessions/${own.id}`);
  assert.equal((await refused.get('/auth/me')).statusCode, 401);
  const another = await signedIn(app);
  await expire(another);
  provider.expireRefreshTokens();
  await another.get('/auth/me');
  provider.reset();
  const last = await signedIn(app);
  await last.post('/auth/logout');
  assert.deepEqual(await figures(app, 'assistant_auth_sessions_ended_total'), {
    '{reason="replaced"}': 1,
    '{reason="ended"}': 1,
    '{reason="refused"}': 1,
    '{reason="signed_out"}': 1,
  });
});
