import assert from 'node:assert/strict';
import { beforeEach, suite, test } from 'node:test';
import { sql } from 'kysely';
import { type Browser, openAssistant } from '../helpers/assistant.ts';
import { until } from '../helpers/until.ts';
import { terminate, untilBlocked, whileLocked } from './locks.ts';
import { type AssistantProcess, send, startProcess } from './processes.ts';

const assistant = await openAssistant();
const { db, engine, provider, instance, signedIn, row, expire } = assistant;
const app = await instance();

const me = { path: '/auth/me' };

beforeEach(() => provider.reset());

/** As if the time of the lease were over. */
async function endLease(): Promise<void> {
  await sql`
    update user_auth_sessions set refresh_lease_until = now()
    where refresh_lease_until is not null`.execute(db);
}

/**
 * Kills a process between the provider's answer and its write, which is waiting in the database then.
 * @param wasTaken Whether the server goes through with the write of a client that is gone.
 */
async function killBeforeWrite(wasTaken: boolean) {
  // Far longer than these tests take, so that whoever waits for the lease goes on waiting.
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
    if (!wasTaken) await terminate(db, pid);
  });
  await failed;
  return { browser, survivor };
}

/** Waits until a process has looked at the session's row some times more. */
async function looksAgain(): Promise<void> {
  const looks = new Set<string>();
  await until(async () => {
    const { rows } = await sql<{ at: string }>`
      select query_start::text as at from pg_stat_activity
      where datname = current_database() and pid <> pg_backend_pid()
        and query like '%select%refresh_lease_until%'`.execute(db);
    for (const { at } of rows) looks.add(at);
    return looks.size >= 4;
  });
}

/** Has another process refresh the session: not before the lease of the first is over. */
async function refreshElsewhere(survivor: AssistantProcess, browser: Browser) {
  const lease = (await row(browser.sid))?.refresh_lease_until;
  assert.ok(lease && lease.getTime() > Date.now(), 'the lease outlives its holder');
  let isAnswered = false;
  const answer = send(survivor, browser, me).finally(() => {
    isAnswered = true;
  });
  await looksAgain();
  assert.equal(isAnswered, false);
  assert.equal(provider.count('token'), 1, 'nobody redeems while the first may be valid');
  await endLease();
  return answer;
}

test('a process that was paused for longer than its lease changes nothing when it goes on', async () => {
  const second = await instance();
  const browser = await signedIn(app);
  await expire(browser);
  // This provider takes a refresh token any number of times, so both get tokens for it.
  provider.token.rotate = false;
  const goOn = provider.holdNext('token');
  const paused = browser.get('/auth/me');
  await until(() => provider.count('token') === 1);
  await endLease();
  assert.equal((await browser.get('/auth/me', { app: second })).statusCode, 200);
  const stored = await row(browser.sid);
  assert.equal(stored?.token_version, 1);
  goOn();
  assert.equal((await paused).statusCode, 200);
  assert.deepEqual(await row(browser.sid), stored);
});

// Killing takes a process, and a process takes a database that it can reach.
if (engine === 'postgres') {
  test('a process that is killed while the provider is slow delays others no longer than its timeout', async () => {
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
    assert.equal(provider.count('token'), 1, 'nobody redeems while the first may be valid');
    assert.deepEqual(await row(browser.sid), held);
    await endLease();
    assert.equal((await send(survivor, browser, me)).status, 200, 'the token was not spent');
  });

  suite('a process that is killed between the answer of the provider and its write', () => {
    test('signs out cleanly where the refresh token is spent', async () => {
      const { browser, survivor } = await killBeforeWrite(false);
      const { status, headers } = await refreshElsewhere(survivor, browser);
      assert.equal(status, 401);
      assert.match(headers.get('set-cookie') ?? '', /^svc_auth_session=; Max-Age=0/);
      assert.equal(provider.count('token'), 2);
      assert.equal(await row(browser.sid), undefined);
      assert.equal((await browser.signIn(provider)).statusCode, 302);
    });

    test('recovers where the provider takes the refresh token again', async () => {
      provider.token.rotate = false;
      const { browser, survivor } = await killBeforeWrite(false);
      assert.equal((await refreshElsewhere(survivor, browser)).status, 200);
      assert.equal(provider.count('token'), 2);
      assert.equal((await row(browser.sid))?.token_version, 1);
      await expire(browser);
      assert.equal((await send(survivor, browser, me)).status, 200);
    });

    test('recovers without the provider where the database had the write', async () => {
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
