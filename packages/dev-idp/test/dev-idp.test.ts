import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { request } from 'node:http';
import { DatabaseSync } from 'node:sqlite';
import { text } from 'node:stream/consumers';
import { describe, test, type TestContext } from 'node:test';
import { fileURLToPath } from 'node:url';
import type { FastifyBaseLogger } from 'fastify';
import { createDevIdp, type DevIdp } from '../src/index.ts';
import { Browser, locationOf } from './helpers/browser.ts';
import {
  authorization,
  client,
  openPicker,
  pick,
  redeem,
  refresh,
  refusalOf,
  signIn,
  tokensOf,
  userInfo,
} from './helpers/client.ts';
import { send } from './helpers/http.ts';
import { assertSigned, eventOf, startReceiver } from './helpers/receiver.ts';
import { freeIssuer, startIdp, storeFileFor } from './helpers/start.ts';

describe('options', () => {
  const issuer = 'http://127.0.0.1:8002';

  test('refuse an issuer that is no loopback origin', async () => {
    for (const wrong of ['http://127.0.0.1:8002/', 'https://127.0.0.1:8002', 'nonsense']) {
      await assert.rejects(createDevIdp({ issuer: wrong, client }), /^TypeError: issuer:/);
    }
    await assert.rejects(
      createDevIdp({ issuer: 'http://192.0.2.1:8002', client }),
      /^RangeError: .*"192\.0\.2\.1"/,
    );
  });

  test('refuse lifetimes that are no whole number of seconds', async () => {
    for (const seconds of [0, -1, 1.5, Number.NaN]) {
      await assert.rejects(
        createDevIdp({ issuer, client, accessTokenSeconds: seconds }),
        /accessTokenSeconds/,
      );
      await assert.rejects(
        createDevIdp({ issuer, client, refreshTokenSeconds: seconds }),
        /refreshTokenSeconds/,
      );
    }
  });

  test('refuse a client that could never sign anybody in', async () => {
    await assert.rejects(
      createDevIdp({ issuer, client: { ...client, redirectUris: [] } }),
      /invalid_redirect_uri|redirect_uris/,
    );
  });
});

describe('the server', () => {
  test('listens on this machine only', async () => {
    const idp = await createDevIdp({ issuer: 'http://127.0.0.1:8002', client });
    await assert.rejects(idp.app.listen({ host: '0.0.0.0', port: 0 }), /this machine only/);
    await idp.close();
  });

  test('answers under its own name only', async (t) => {
    const { issuer } = await startIdp(t);
    const call = request(new URL('/.well-known/openid-configuration', issuer), {
      headers: { host: 'rebound.example' },
    });
    call.end();
    const [response] = await once(call, 'response');
    assert.equal(response.statusCode, 421);
    assert.match(await text(response), new RegExp(`answers at ${issuer} only`));
  });

  test('rejects a request with several hosts', async (t) => {
    const { issuer } = await startIdp(t);
    const { host } = new URL(issuer);
    const headers = ['host', host, 'host', host];
    const call = request(new URL('/.well-known/openid-configuration', issuer), { headers });
    call.end();
    const [response] = await once(call, 'response');
    assert.equal(response.statusCode, 400);
  });

  test('lets the caller add routes before it listens', async (t) => {
    const issuer = await freeIssuer();
    const idp = await createDevIdp({ issuer, client });
    t.after(() => idp.close());
    idp.app.post('/dev/echo', async ({ body }) => body);
    await idp.app.listen({ host: '127.0.0.1', port: Number(new URL(issuer).port) });
    const response = await send(new URL('/dev/echo', issuer), {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: '{"a":1}',
    });
    assert.deepEqual(await response.json(), { a: 1 });
  });

  test('reports unexpected errors to the log and tells the caller nothing', async (t) => {
    const reported: unknown[] = [];
    const storeFile = storeFileFor(t);
    const { issuer } = await startIdp(t, { storeFile, log: logThatKeepsErrors(reported) });
    const tokens = await signIn(issuer);
    const other = new DatabaseSync(storeFile);
    other.exec('drop table artifacts');
    other.close();

    assert.deepEqual(await refusalOf(await userInfo(issuer, tokens)), [500, 'server_error']);
    assert.match(String(reported[0]), /no such table/);
  });
});

describe('lifetimes', () => {
  test('end an access token', async (t) => {
    t.mock.timers.enable({ apis: ['Date'], now: Date.now() });
    const { issuer } = await startIdp(t, { accessTokenSeconds: 20 });
    const tokens = await signIn(issuer);
    assert.equal(tokens.expires_in, 20);
    t.mock.timers.tick(19_000);
    assert.equal((await userInfo(issuer, tokens)).status, 200);
    t.mock.timers.tick(2_000);
    assert.deepEqual(await refusalOf(await userInfo(issuer, tokens)), [401, 'invalid_token']);
  });

  test('end a sign-in however often it was refreshed', async (t) => {
    t.mock.timers.enable({ apis: ['Date'], now: Date.now() });
    const { issuer } = await startIdp(t, { refreshTokenSeconds: 100 });
    const first = await signIn(issuer);
    t.mock.timers.tick(60_000);
    const second = await tokensOf(await refresh(issuer, first));
    t.mock.timers.tick(41_000);
    assert.deepEqual(await refusalOf(await refresh(issuer, second)), [400, 'invalid_grant']);
  });
});

describe('changes to accounts hold at once', () => {
  test('a blocked account loses its sign-ins and does not get them back', async (t) => {
    const { idp, issuer } = await startIdp(t);
    const tokens = await signIn(issuer, 'u-olena');
    const others = await signIn(issuer, 'u-taras');

    idp.setBlocked('u-olena', true);
    assert.equal(idp.accounts.find(({ sub }) => sub === 'u-olena')?.blocked, true);
    for (const blocked of [true, false]) {
      idp.setBlocked('u-olena', blocked);
      assert.deepEqual(await refusalOf(await userInfo(issuer, tokens)), [401, 'invalid_token']);
      assert.deepEqual(await refusalOf(await refresh(issuer, tokens)), [400, 'invalid_grant']);
    }
    assert.equal((await userInfo(issuer, others)).status, 200);
    assert.equal((await userInfo(issuer, await signIn(issuer, 'u-olena'))).status, 200);
  });

  test('a code of an account blocked meanwhile is worth nothing', async (t) => {
    const { idp, issuer } = await startIdp(t);
    const browser = new Browser();
    const { url, verifier } = authorization(issuer);
    const callback = await pick(browser, await openPicker(issuer, browser, url), {
      account: 'u-olena',
    });
    idp.setBlocked('u-olena', true);
    assert.deepEqual(await refusalOf(await redeem(issuer, callback, verifier)), [
      400,
      'invalid_grant',
    ]);
  });

  test('access is reported as it is now', async (t) => {
    const { idp, issuer } = await startIdp(t);
    const tokens = await signIn(issuer);
    const access = { role_ids: ['svc_user', 'svc_admin'], permission_ids: ['svc.debug.access'] };
    idp.setAccess('u-olena', access);
    const data: { client_access_list: unknown } = JSON.parse(
      await (await userInfo(issuer, tokens)).text(),
    );
    assert.deepEqual(data.client_access_list, [{ client_id: 'oselya', ...access }]);
  });

  test('revoked sign-ins end, and the account can sign in anew', async (t) => {
    const { idp, issuer } = await startIdp(t);
    const tokens = await signIn(issuer, 'u-olena');
    const others = await signIn(issuer, 'u-taras');
    idp.revokeSessions('u-olena');
    assert.deepEqual(await refusalOf(await userInfo(issuer, tokens)), [401, 'invalid_token']);
    assert.deepEqual(await refusalOf(await refresh(issuer, tokens)), [400, 'invalid_grant']);
    assert.equal((await userInfo(issuer, others)).status, 200);
    assert.equal((await userInfo(issuer, await signIn(issuer, 'u-olena'))).status, 200);
  });
});

describe('ended sign-ins stay ended', () => {
  // A refresh that is under way when the revocation comes saves its tokens after it.
  for (const [name, end] of [
    ['revoked sessions', (idp: DevIdp) => idp.revokeSessions('u-olena')],
    ['a log-out of everybody', (idp: DevIdp) => idp.logOutEverybody()],
  ] as const) {
    test(`${name}: tokens written meanwhile are refused`, async (t) => {
      const storeFile = storeFileFor(t);
      const { idp, issuer } = await startIdp(t, { storeFile });
      const tokens = await signIn(issuer);
      const store = new DatabaseSync(storeFile);
      t.after(() => store.close());
      store.exec(
        `create table late as select model, id, payload, expires_at from artifacts
         where model in ('AccessToken', 'RefreshToken')`,
      );
      end(idp);
      const late = store.prepare(
        'insert into artifacts (model, id, payload, expires_at) select * from late',
      );
      assert.equal(late.run().changes, 2);
      assert.deepEqual(await refusalOf(await userInfo(issuer, tokens)), [401, 'invalid_token']);
      assert.deepEqual(await refusalOf(await refresh(issuer, tokens)), [400, 'invalid_grant']);
    });
  }
});

describe('webhooks', () => {
  const secret = 'whsec_ZGV2ZWxvcG1lbnQ=';

  test('tell of every change made by a call, in order', async (t) => {
    const { url, messages } = await startReceiver(t);
    const { idp } = await startIdp(t, { webhook: { url, secret } });
    idp.setBlocked('u-olena', true);
    idp.setBlocked('u-olena', false);
    idp.setAccess('u-olena', { role_ids: ['svc_admin'], permission_ids: [] });
    idp.revokeSessions('u-taras');
    idp.logOutEverybody();
    await idp.webhooksSettled();
    assert.deepEqual(messages.map(eventOf), [
      ['user.blocked', 'u-olena'],
      ['user.unblocked', 'u-olena'],
      ['client.roles_changed', 'u-olena'],
      ['client.permissions_changed', 'u-olena'],
      ['session.revoked', 'u-taras'],
      ['auth.global_logout', undefined],
    ]);
    for (const message of messages) assertSigned(message, Buffer.from('development'));
    assert.deepEqual(
      idp.deliveries.map(({ event, state }) => [event, state]),
      messages.map((message) => [eventOf(message)[0], 'delivered']).toReversed(),
    );
  });

  test('that wait end with the provider', async (t) => {
    const { url, arrived } = await startReceiver(t, ['never']);
    const { idp } = await startIdp(t, { webhook: { url, secret } });
    idp.revokeSessions('u-olena');
    idp.revokeSessions('u-taras');
    await arrived(1);
    await idp.close();
    assert.deepEqual(
      idp.deliveries.map(({ state, detail }) => [state, detail]),
      [
        ['failed', 'the provider was stopped'],
        ['failed', 'the provider was stopped'],
      ],
    );
  });

  test('are refused at the start where their address or secret cannot work', async () => {
    const issuer = 'http://127.0.0.1:8002';
    const url = 'http://127.0.0.1:8000/webhooks/idp';
    for (const webhook of [
      { url: '127.0.0.1:8000', secret },
      { url, secret: '' },
      { url, secret: 'whsec_?' },
    ]) {
      await assert.rejects(createDevIdp({ issuer, client, webhook }), /^TypeError: webhook\./);
    }
  });
});

describe('a store file', () => {
  test('keeps sign-ins, keys and changed accounts across a restart', async (t) => {
    const [issuer, storeFile] = [await freeIssuer(), storeFileFor(t)];
    const before = await startIdp(t, { issuer, storeFile });
    const tokens = await signIn(issuer);
    const keys = await keySetOf(issuer);
    before.idp.setAccess('u-olena', { role_ids: ['svc_admin'], permission_ids: [] });
    before.idp.setBlocked('u-taras', true);
    await before.idp.close();

    const { idp } = await startIdp(t, { issuer, storeFile });
    assert.equal((await userInfo(issuer, tokens)).status, 200);
    assert.equal((await refresh(issuer, tokens)).status, 200);
    assert.equal(await keySetOf(issuer), keys);
    assert.deepEqual(
      idp.accounts.map(({ sub, role_ids, blocked }) => ({ sub, role_ids, blocked })),
      [
        { sub: 'u-olena', role_ids: ['svc_admin'], blocked: false },
        { sub: 'u-taras', role_ids: ['svc_admin'], blocked: true },
      ],
    );
  });

  test('keeps them when the process is killed, and nothing is printed meanwhile', async (t) => {
    const [issuer, storeFile] = [await freeIssuer(), storeFileFor(t)];
    const running = await serve(t, issuer, storeFile);
    const browser = new Browser();
    const tokens = await signIn(issuer);
    const refreshed = await tokensOf(await refresh(issuer, tokens));
    const picker = await openPicker(issuer, browser);
    assert.equal(await running.kill(), 'ready\n');

    await startIdp(t, { issuer, storeFile });
    assert.equal((await userInfo(issuer, refreshed)).status, 200);
    const resume = locationOf(await browser.post(picker, { account: 'u-olena' }));
    assert.ok(locationOf(await browser.get(resume)).searchParams.has('code'));
  });
});

async function keySetOf(issuer: string): Promise<string> {
  return (await send(new URL('/oauth/jwks', issuer))).text();
}

/** Runs a provider in a process of its own; `kill` gives everything the process has printed. */
async function serve(t: TestContext, issuer: string, storeFile: string) {
  const script = fileURLToPath(new URL('helpers/serve.ts', import.meta.url));
  const child = spawn(process.execPath, [script, issuer, storeFile]);
  const exited = once(child, 'exit');
  t.after(() => child.kill('SIGKILL'));
  let printed = '';
  const print = (chunk: Buffer) => {
    printed += chunk.toString();
  };
  child.stdout.on('data', print);
  child.stderr.on('data', print);
  await Promise.race([once(child.stdout, 'data'), exited]);
  return {
    async kill(): Promise<string> {
      child.kill('SIGKILL');
      await exited;
      return printed;
    },
  };
}

const ignore = () => {};

function logThatKeepsErrors(kept: unknown[]): FastifyBaseLogger {
  const log: FastifyBaseLogger = {
    level: 'error',
    error: (error: unknown) => kept.push(error),
    fatal: ignore,
    warn: ignore,
    info: ignore,
    debug: ignore,
    trace: ignore,
    silent: ignore,
    child: () => log,
  };
  return log;
}
