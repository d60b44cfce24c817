import assert from 'node:assert/strict';
import { suite, beforeEach, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { sql } from 'kysely';
import { type Browser, openAssistant } from '../helpers/assistant.ts';
import { until } from '../helpers/until.ts';
import {
  type AssistantProcess,
  send,
  startProcess,
  startReplicas,
  untilBlocked,
  whileLocked,
} from './helpers.ts';

const assistant = await openAssistant();
const { db, engine, provider, instance, signedIn, row, expire } = assistant;
const app = await instance();

const me = { path: '/auth/me' };

beforeEach(() => provider.reset());

/** Expires the lease of every refresh. */
async function endLease(): Promise<void> {
  await sql`
    update user_auth_sessions set refresh_lease_until = now()
    where refresh_lease_until is not null`.execute(db);
}

/**
 * Kills a process between the provider's answer and its write, which waits for a lock.
 * @param isWritten Whether the database executes the write of the killed client.
 */
async function killBeforeWrite(isWritten: boolean) {
  // No lease expires during these tests.
  const patient = { IDP_TIMEOUT_MS: '60000' };
  const [victim, survivor] = await Promise.all([
    startProcess(assistant, patient),
    startProcess(assistant, patient),
  ]);
  const browser = await signedIn(app);
  await expire(browser);
  const answer = provider.holdNext('token');
  const failed = assert.rejects(send(victim, browser, me));
  await until(() => provider.count('token') === 1);
  const lock = sql`select from user_auth_sessions where id = ${browser.sid} for update`;
  await whileLocked(db, lock, async () => {
    answer();
    const pid = await untilBlocked(db);
    await victim.kill();
    if (!isWritten) await sql`select pg_terminate_backend(${pid})`.execute(db);
  });
  await failed;
  return { browser, survivor };
}

/** Waits until a process has polled the session's row four times. */
async function untilPolled(): Promise<void> {
  const polls = new Set<string>();
  await until(async () => {
    const { rows } = await sql<{ at: string }>`
      select query_start::text as at from pg_stat_activity
      where datname = current_database() and pid <> pg_backend_pid()
        and query like '%select%refresh_lease_until%'`.execute(db);
    for (const { at } of rows) polls.add(at);
    return polls.size >= 4;
  });
}

/** Refreshes the session at another process, which waits until the lease of the first expires. */
async function refreshElsewhere(survivor: AssistantProcess, browser: Browser) {
  const lease = (await row(browser.sid))?.refresh_lease_until;
  assert.ok(lease && lease.getTime() > Date.now(), 'the lease outlives its holder');
  let isAnswered = false;
  const answer = send(survivor, browser, me).finally(() => {
    isAnswered = true;
  });
  await untilPolled();
  assert.equal(isAnswered, false);
  assert.equal(provider.count('token'), 1, 'the token is not redeemed while the lease lasts');
  await endLease();
  return answer;
}

test('A process that resumes after the expiry of its lease changes nothing', async () => {
  const second = await instance();
  const browser = await signedIn(app);
  await expire(browser);
  // Without rotation both processes get tokens for the refresh token.
  provider.token.rotate = false;
  const resume = provider.holdNext('token');
  const paused = browser.get('/auth/me');
  await until(() => provider.count('token') === 1);
  await endLease();
  assert.equal((await browser.get('/auth/me', { app: second })).statusCode, 200);
  const stored = await row(browser.sid);
  assert.equal(stored?.token_version, 1);
  resume();
  assert.equal((await paused).statusCode, 200);
  assert.deepEqual(await row(browser.sid), stored);
});

if (engine === 'postgres') {
  test('After a kill during a slow answer other processes wait no longer than their timeout', async () => {
    const [victim, survivor] = await Promise.all([
      startProcess(assistant),
      startProcess(assistant, { IDP_TIMEOUT_MS: '500' }),
    ]);
    const browser = await signedIn(app);
    await expire(browser);
    provider.holdNext('token');
    const failed = assert.rejects(send(victim, browser, me));
    await until(() => provider.count('token') === 1);
    await victim.kill();
    await failed;
    const held = await row(browser.sid);
    const requests = Array.from({ length: 5 }, () => send(survivor, browser, me));
    for (const { status, headers } of await Promise.all(requests)) {
      assert.deepEqual([status, headers.get('retry-after')], [503, '5']);
      assert.equal(headers.get('set-cookie'), null);
    }
    assert.equal(provider.count('token'), 1, 'the token is not redeemed while the lease lasts');
    assert.deepEqual(await row(browser.sid), held);
    await endLease();
    assert.equal((await send(survivor, browser, me)).status, 200, 'the token was not spent');
  });

  suite('a process killed between the answer of the provider and its write', () => {
    test('A session ends if the refresh token is spent by a killed process', async () => {
      const { browser, survivor } = await killBeforeWrite(false);
      const { status, headers } = await refreshElsewhere(survivor, browser);
      assert.equal(status, 401);
      assert.match(headers.get('set-cookie') ?? '', /^svc_auth_session=; Max-Age=0/);
      assert.equal(provider.count('token'), 2);
      assert.equal(await row(browser.sid), undefined);
      assert.equal((await browser.signIn(provider)).statusCode, 302);
    });

    test('A session recovers from a kill if the provider accepts the refresh token again', async () => {
      provider.token.rotate = false;
      const { browser, survivor } = await killBeforeWrite(false);
      assert.equal((await refreshElsewhere(survivor, browser)).status, 200);
      assert.equal(provider.count('token'), 2);
      assert.equal((await row(browser.sid))?.token_version, 1);
      await expire(browser);
      assert.equal((await send(survivor, browser, me)).status, 200);
    });

    test('A session recovers from a kill without the provider if the database executes the write', async () => {
      const { browser, survivor } = await killBeforeWrite(true);
      await until(async () => (await row(browser.sid))?.token_version === 1);
      assert.equal((await send(survivor, browser, me)).status, 200);
      assert.equal(provider.count('token'), 1);
      await expire(browser);
      assert.equal((await send(survivor, browser, me)).status, 200);
      assert.equal(provider.count('token'), 2, 'with the token that was kept');
    });
  });
}

suite('race of replicas', async () => {
  const REQUESTS = 200;

  const replicas = await startReplicas(assistant, 2, { IDP_TIMEOUT_MS: '20000' });

  beforeEach(() => provider.reset());

  // With a shorter lease a second process would redeem the token again.
  const cases: [name: string, answersAfterMs: number][] = [['at once', 0]];
  if (engine === 'postgres') cases.push(['after six seconds', 6000]);

  for (const [name, answersAfterMs] of cases) {
    test(`${REQUESTS} requests for one expired token redeem it once, answered ${name}`, async () => {
      const browser = await signedIn(app);
      await expire(browser);
      const release = provider.holdNext('token');
      const requests = Array.from({ length: REQUESTS }, (_, index) => {
        const replica = replicas[index % replicas.length];
        assert.ok(replica !== undefined);
        return send(replica, browser, { path: '/auth/me' });
      });
      await until(() => provider.count('token') > 0);
      await sleep(answersAfterMs);
      release();
      const answers = await Promise.all(requests);

      const statuses = Object.groupBy(answers, ({ status }) => status);
      const redeemed = provider.count('token', 'refresh_token');
      assert.deepEqual(Object.keys(statuses), ['200']);
      assert.equal(redeemed, 1);
      assert.ok(answers.every(({ headers }) => !headers.has('set-cookie')));
      const after = await row(browser.sid);
      assert.equal(after?.token_version, 1);
      assert.equal(after?.refresh_lease_until, null);

      await expire(browser);
      assert.equal((await browser.get('/auth/me')).statusCode, 200);
    });
  }

  test('Concurrently expired sessions are each refreshed once', async () => {
    await db.deleteFrom('user_auth_sessions').execute();
    const browsers: Browser[] = [];
    for (let count = 0; count < 20; count += 1) browsers.push(await signedIn(app));
    for (const browser of browsers) await expire(browser);
    const answers = await Promise.all(
      [0, 1, 2, 3, 4].flatMap(() =>
        browsers.flatMap((browser) =>
          replicas.map((replica) => send(replica, browser, { path: '/auth/me' })),
        ),
      ),
    );
    assert.deepEqual([...new Set(answers.map(({ status }) => status))], [200]);
    const redeemed = provider.count('token', 'refresh_token');
    assert.equal(redeemed, browsers.length);
    const versions = await db.selectFrom('user_auth_sessions').select('token_version').execute();
    assert.equal(
      versions.filter(({ token_version }) => token_version === 1).length,
      browsers.length,
    );
  });
});
