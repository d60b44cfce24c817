import assert from 'node:assert/strict';
import { openAssistant, type Browser } from '../helpers/assistant.ts';
import { type Fault } from '../scripted-provider.ts';
import { send, startProcess, startReplicas, type AssistantProcess, withLock } from './helpers.ts';
import { sql } from 'kysely';
import { once } from 'node:events';
import { type ServerResponse } from 'node:http';
import { beforeEach, suite, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { gzipSync } from 'node:zlib';
import { startProxy, until } from '@oselya/testing';

suite('outage of the provider', async () => {
  const MEBIBYTE = 1024 * 1024;
  const HUGE_BYTES = 100 * MEBIBYTE;

  const { db, provider, createInstance, signInUser, findAuthSession, expireToken } =
    await openAssistant();
  const app = await createInstance();
  const impatientApp = await createInstance({ IDP_TIMEOUT_MS: '150' });
  const unreachableApp = await createInstance({ IDP_BASE_URL: 'http://127.0.0.1:1' });

  beforeEach(() => provider.reset());

  const JSON_HEADERS = { 'content-type': 'application/json' };
  const createRawAnswer = (text: string) => (response: ServerResponse) =>
    void response.socket?.end(text);
  const deepJson = `${'['.repeat(100_000)}${']'.repeat(100_000)}`;
  const gzipBomb = gzipSync(Buffer.alloc(20 * MEBIBYTE, ' '));
  let sentBytes = 0;
  let outageCount = 0;

  /** Sends 100 MiB of spaces as fast as the client reads. */
  async function sendHugeAnswer(response: ServerResponse): Promise<void> {
    const chunk = Buffer.alloc(64 * 1024, ' ');
    const controller = new AbortController();
    response.on('close', () => controller.abort());
    sentBytes = 0;
    response.writeHead(200, JSON_HEADERS);
    while (sentBytes < HUGE_BYTES && !response.destroyed) {
      sentBytes += chunk.length;
      if (response.write(chunk)) continue;
      await once(response, 'drain', { signal: controller.signal }).catch(() => undefined);
    }
    response.end();
  }

  /** Provider faults by name. None of them rejects a token. */
  const outages: Record<string, Fault> = {
    disconnects: 'disconnect',
    'responds with 500': { status: 500, body: '{"error":"invalid_grant"}' },
    'responds with 503': { status: 503, headers: { 'retry-after': '3600' } },
    'responds with a page': { status: 200, body: '<!doctype html>' },
    'responds with 404': { status: 404, body: '{"error":"not_found"}' },
    'responds with 429': { status: 429, body: '{"error":"invalid_grant"}' },
    'responds with 403 of a gateway': { status: 403, body: '{"error":"rate_limit_exceeded"}' },
    redirects: { status: 302, headers: { location: 'http://127.0.0.1:1/' } },
    'responds with an empty body': { status: 200 },
    'responds with an array': { status: 200, body: '[1,"access_token",null]' },
    'responds with deep JSON': { status: 200, body: deepJson },
    'breaks off within the body': (response) =>
      response
        .writeHead(200, { ...JSON_HEADERS, 'content-length': '4000' })
        .write('{"access_token":"half', () => response.destroy()),
    'sends malformed chunks': createRawAnswer(
      'HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n',
    ),
    'responds with a different protocol': createRawAnswer('220 mail.example.test ESMTP\r\n'),
    'sends a decompression bomb': (response) =>
      void response.writeHead(200, { ...JSON_HEADERS, 'content-encoding': 'gzip' }).end(gzipBomb),
    'sends 100 MiB': (response) => void sendHugeAnswer(response),
  };

  type BrowserResponse = Awaited<ReturnType<Browser['get']>>;

  function assertOutage(response: BrowserResponse): void {
    assert.equal(response.statusCode, 503, response.body);
    assert.equal(response.json().code, 'provider_unavailable');
    assert.equal(response.headers['retry-after'], '5');
    assert.deepEqual(response.cookies, []);
    // Both sides buffer a part of a huge answer, so more than the limit of 256 KiB is sent.
    assert.ok(sentBytes < 20 * MEBIBYTE, `${sentBytes} bytes were taken`);
    outageCount += 1;
  }

  const readRows = async () => ({
    users: await db.selectFrom('svc_users').selectAll().execute(),
    sessions: await db.selectFrom('user_auth_sessions').selectAll().orderBy('id').execute(),
  });

  for (const [name, fault] of Object.entries(outages)) {
    test(`A provider that ${name} neither ends nor creates a session`, async (t) => {
      outageCount = 0;
      const browser = await signInUser(app);
      const { sid } = browser;
      const earlierRows = await readRows();
      provider.faults.set('userinfo', fault);
      assertOutage(await browser.get('/auth/me'));
      assertOutage(await browser.signIn(provider));
      assert.deepEqual(await readRows(), earlierRows);
      await expireToken(browser);
      assertOutage(await browser.get('/auth/me'));
      provider.faults.clear();
      assert.equal((await browser.get('/auth/me')).statusCode, 200);

      await expireToken(browser);
      const expiredRow = await findAuthSession(sid);
      provider.faults.set('token', fault);
      assertOutage(await browser.get('/auth/me'));
      assert.deepEqual(await findAuthSession(sid), expiredRow, 'the lease is released');
      // The authorization code may be spent, so the response asks the user to sign in again.
      const exchange = await browser.signIn(provider);
      assert.deepEqual([exchange.statusCode, exchange.json().code], [400, 'token_exchange_failed']);
      assert.deepEqual(exchange.cookies, []);
      provider.faults.clear();
      assert.equal((await browser.get('/auth/me')).statusCode, 200);

      const { sessions } = await readRows();
      t.diagnostic(
        `sessions: ${earlierRows.sessions.length} before, ${sessions.length} after; ` +
          `requests: ${outageCount} unavailable, ${provider.count('token', 'refresh_token')} for new tokens`,
      );

      provider.faults.set('revoke', fault);
      assert.equal((await browser.post('/auth/logout')).statusCode, 200);
      assert.equal(await findAuthSession(sid), undefined);
      assert.ok(sentBytes < 20 * MEBIBYTE, `${sentBytes} bytes were taken`);
    });
  }

  test('An outage of discovery ends no session', async () => {
    const browser = await signInUser(app);
    for (const fault of [
      outages['disconnects'],
      outages['responds with 404'],
      outages['responds with a page'],
      { status: 401, body: '{"error":"invalid_grant"}' },
    ]) {
      const freshApp = await createInstance({ IDP_DISCOVERY: 'true' });
      assert.ok(fault !== undefined);
      provider.faults.set('discovery', fault);
      await expireToken(browser);
      for (const path of ['/auth/me', '/auth/login']) {
        assertOutage(await browser.get(path, { app: freshApp }));
      }
      provider.faults.clear();
      provider.publishMetadata();
      assert.equal((await browser.get('/auth/me', { app: freshApp })).statusCode, 200);
    }
  });

  for (const endpoint of ['userinfo', 'token'] as const) {
    test(`A slow answer of ${endpoint} times out and keeps the session`, async () => {
      const browser = await signInUser(app);
      if (endpoint === 'token') await expireToken(browser);
      const earlierRow = await findAuthSession(browser.sid);
      const release = provider.holdNext(endpoint);
      assertOutage(await browser.get('/auth/me', { app: impatientApp }));
      release();
      provider.faults.set(endpoint, (response) => void response.writeHead(200).write('{"sub":'));
      assertOutage(await browser.get('/auth/me', { app: impatientApp }));
      assert.deepEqual(await findAuthSession(browser.sid), earlierRow);
    });
  }

  test('Sessions stay during an outage of the provider, and sign-ins begin', async () => {
    const browser = await signInUser(app);
    const earlierRow = await findAuthSession(browser.sid);
    assertOutage(await browser.get('/auth/me', { app: unreachableApp }));
    await expireToken(browser);
    assertOutage(await browser.get('/auth/me', { app: unreachableApp }));
    assert.equal(
      (await findAuthSession(browser.sid))?.access_token_enc,
      earlierRow?.access_token_enc,
    );
    assert.equal((await browser.get('/auth/login', { app: unreachableApp })).statusCode, 302);
    const { status, checks } = (await browser.get('/health', { app: unreachableApp })).json();
    assert.equal(status, 'degraded');
    assert.match(
      checks.identity_provider.detail,
      /could not be reached \(bad port\): check IDP_BASE_URL/,
    );
    assert.equal((await browser.get('/auth/me')).statusCode, 200);
  });

  // The answer spends the refresh token, so an invalid lifetime must not end the session.
  test('A malformed lifetime of a token counts as unknown', async () => {
    for (const expiresIn of [-1, -1e300, 'soon', '', null, [3600], {}, true]) {
      const browser = await signInUser(app);
      await expireToken(browser);
      provider.token.extra = { expires_in: expiresIn };
      assert.equal((await browser.get('/auth/me')).statusCode, 200);
      assert.equal(
        (await findAuthSession(browser.sid))?.expires_at,
        null,
        JSON.stringify(expiresIn),
      );
      assert.equal((await browser.get('/auth/me')).statusCode, 200);
      assert.equal(provider.count('token'), 1);
      provider.expireAccessTokens();
      assert.equal((await browser.get('/auth/me')).statusCode, 200);
      assert.equal(provider.count('token'), 2, 'refreshed once the provider rejects the token');
    }
  });

  test('The lifetime of a token is read in seconds, and is at most a year', async () => {
    for (const [expiresIn, seconds] of [
      [Number.MAX_VALUE, 365 * 86_400],
      ['7200', 7200],
      [59.5, 59.5],
    ] as const) {
      const browser = await signInUser(app);
      await expireToken(browser);
      provider.token.extra = { expires_in: expiresIn };
      const earliestTime = Date.now() - 1000;
      assert.equal((await browser.get('/auth/me')).statusCode, 200);
      const latestTime = Date.now() + 1000;
      const refreshTime =
        ((await findAuthSession(browser.sid))?.expires_at?.getTime() ?? 0) - seconds * 1000;
      assert.ok(refreshTime > earliestTime && refreshTime < latestTime, String(expiresIn));
    }
  });
});

suite('refresh of tokens', async () => {
  const assistant = await openAssistant();
  const { db, databaseUrl, engine, provider, createInstance, signInUser } = assistant;
  const { findAuthSession, expireToken } = assistant;
  const app = await createInstance();

  const meRequest = { path: '/auth/me' };

  beforeEach(() => provider.reset());

  /** Expires all refresh leases. */
  async function expireLeases(): Promise<void> {
    await sql`
    update user_auth_sessions set refresh_lease_until = now()
    where refresh_lease_until is not null`.execute(db);
  }

  /** Kills a process that has received the provider's answer, while the write of the tokens waits for a lock. */
  async function killBeforeWrite() {
    // With this timeout, leases outlast the tests.
    const patientSettings = { IDP_TIMEOUT_MS: '60000' };
    const [killedProcess, survivor] = await Promise.all([
      startProcess(assistant, patientSettings),
      startProcess(assistant, patientSettings),
    ]);
    const browser = await signInUser(app);
    await expireToken(browser);
    const release = provider.holdNext('token');
    const rejection = assert.rejects(send(killedProcess, browser, meRequest));
    await until(() => provider.count('token') === 1);
    const lockStatement = sql`select from user_auth_sessions where id = ${browser.sid} for update`;
    await withLock(db, lockStatement, async (waitUntilBlocked) => {
      release();
      const [pid] = await waitUntilBlocked();
      await killedProcess.kill();
      await sql`select pg_terminate_backend(${pid})`.execute(db);
    });
    await rejection;
    return { browser, survivor };
  }

  /** Waits until a process has polled the session's row four times. */
  async function waitUntilPolled(): Promise<void> {
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

  /** Refreshes the session through another process, which waits until the first process's lease expires. */
  async function refreshElsewhere(survivor: AssistantProcess, browser: Browser) {
    const lease = (await findAuthSession(browser.sid))?.refresh_lease_until;
    assert.ok(lease && lease.getTime() > Date.now(), 'the lease outlives its holder');
    let isAnswered = false;
    const responsePromise = send(survivor, browser, meRequest).finally(() => {
      isAnswered = true;
    });
    await waitUntilPolled();
    assert.equal(isAnswered, false);
    assert.equal(provider.count('token'), 1, 'the token is not redeemed while the lease lasts');
    await expireLeases();
    return responsePromise;
  }

  test('A process that resumes after the expiry of its lease changes nothing', async () => {
    const secondApp = await createInstance();
    // With rotation, the provider rejects the refresh token of the resumed process.
    for (const rotate of [false, true]) {
      provider.reset();
      const browser = await signInUser(app);
      await expireToken(browser);
      provider.token.rotate = rotate;
      const release = provider.holdNext('token');
      const pausedRequest = browser.get('/auth/me');
      await until(() => provider.count('token') === 1);
      await expireLeases();
      assert.equal((await browser.get('/auth/me', { app: secondApp })).statusCode, 200);
      const storedRow = await findAuthSession(browser.sid);
      assert.equal(storedRow?.token_version, 1);
      release();
      assert.equal((await pausedRequest).statusCode, 200);
      assert.equal(provider.count('token'), 2);
      assert.deepEqual(await findAuthSession(browser.sid), storedRow);
    }
  });

  if (databaseUrl !== undefined) {
    test('No other process redeems a token whose holder cannot reach the database', async (t) => {
      const proxy = await startProxy(databaseUrl);
      t.after(proxy.restore);
      const [cutOffProcess, otherProcess] = await Promise.all([
        startProcess(assistant, { DATABASE_URL: proxy.url, IDP_TIMEOUT_MS: '20000' }),
        startProcess(assistant, { IDP_TIMEOUT_MS: '2000' }),
      ]);
      const browser = await signInUser(app);
      await expireToken(browser);
      const issuedCount = provider.issued.length;
      const release = provider.holdNext('token');
      const firstAnswer = send(cutOffProcess, browser, meRequest);
      await until(() => provider.count('token') === 1);
      await proxy.interrupt();
      release();
      await until(() => provider.issued.length > issuedCount);
      // Simulates that a minute passes.
      await sql`
        update user_auth_sessions set refresh_lease_until = refresh_lease_until - interval '1 minute'
        where id = ${browser.sid}`.execute(db);
      assert.equal((await send(otherProcess, browser, meRequest)).status, 503);
      await proxy.restore();
      assert.equal((await firstAnswer).status, 200);
      assert.equal((await send(otherProcess, browser, meRequest)).status, 200);
      assert.equal(provider.count('token'), 1);
      t.diagnostic(`requests for new tokens: ${provider.count('token')}`);
      const storedRow = { token_version: 1, refresh_lease_until: null };
      assert.partialDeepStrictEqual(await findAuthSession(browser.sid), storedRow);
    });

    test('After a kill during a slow answer other processes wait no longer than their timeout', async () => {
      const [killedProcess, survivor] = await Promise.all([
        startProcess(assistant),
        startProcess(assistant, { IDP_TIMEOUT_MS: '500' }),
      ]);
      const browser = await signInUser(app);
      await expireToken(browser);
      provider.holdNext('token');
      const rejection = assert.rejects(send(killedProcess, browser, meRequest));
      await until(() => provider.count('token') === 1);
      await killedProcess.kill();
      await rejection;
      const leasedRow = await findAuthSession(browser.sid);
      const responsePromises = Array.from({ length: 5 }, () => send(survivor, browser, meRequest));
      for (const { status, headers } of await Promise.all(responsePromises)) {
        assert.deepEqual([status, headers.get('retry-after')], [503, '5']);
        assert.equal(headers.get('set-cookie'), null);
      }
      assert.equal(provider.count('token'), 1, 'the token is not redeemed while the lease lasts');
      assert.deepEqual(await findAuthSession(browser.sid), leasedRow);
      await expireLeases();
      const { status } = await send(survivor, browser, meRequest);
      assert.equal(status, 200, 'the token was not used');
    });

    test('A session ends if the refresh token is spent by a killed process', async () => {
      const { browser, survivor } = await killBeforeWrite();
      const { status, headers } = await refreshElsewhere(survivor, browser);
      assert.equal(status, 401);
      assert.match(headers.get('set-cookie') ?? '', /^svc_auth_session=; Max-Age=0/);
      assert.equal(provider.count('token'), 2);
      assert.equal(await findAuthSession(browser.sid), undefined);
      assert.equal((await browser.signIn(provider)).statusCode, 302);
    });
  }

  suite('race of replicas', async () => {
    const REQUEST_COUNT = 200;

    const replicas = await startReplicas(assistant, 2, { IDP_TIMEOUT_MS: '20000' });

    beforeEach(() => provider.reset());

    // With a lease shorter than the delay, a second process would redeem the token again.
    const delaysMs = engine === 'postgres' ? [0, 6000] : [0];

    for (const delayMs of delaysMs) {
      test(`${REQUEST_COUNT} requests for one expired token redeem it once, answered after ${delayMs} ms`, async (t) => {
        const browser = await signInUser(app);
        await expireToken(browser);
        const release = provider.holdNext('token');
        const responsePromises = Array.from({ length: REQUEST_COUNT }, (_, index) => {
          const replica = replicas[index % replicas.length];
          assert.ok(replica !== undefined);
          return send(replica, browser, { path: '/auth/me' });
        });
        await until(() => provider.count('token') > 0);
        // The refresh holds no database connection.
        for (const { url } of replicas) assert.equal((await fetch(`${url}/health`)).status, 200);
        await sleep(delayMs);
        release();
        const responses = await Promise.all(responsePromises);
        t.diagnostic(
          `requests: ${REQUEST_COUNT}, for new tokens: ${provider.count('token', 'refresh_token')}`,
        );

        assert.ok(responses.every(({ status }) => status === 200));
        assert.equal(provider.count('token', 'refresh_token'), 1);
        assert.ok(responses.every(({ headers }) => !headers.has('set-cookie')));
        const rotatedRow = { token_version: 1, refresh_lease_until: null };
        assert.partialDeepStrictEqual(await findAuthSession(browser.sid), rotatedRow);
        await expireToken(browser);
        assert.equal((await browser.get('/auth/me')).statusCode, 200);
      });
    }
  });
});
