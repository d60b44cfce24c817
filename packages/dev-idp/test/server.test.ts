import assert from 'node:assert/strict';
import { statSync } from 'node:fs';
import { suite, test } from 'node:test';
import { exchange, findUnusedUrl } from '@oselya/testing';
import { createDevIdp } from '../src/server.ts';
import { loadKeys, openDatabase } from '../src/store.ts';
import { client, refresh, send, signIn, startIdp, storeFileFor, userInfo } from './support.ts';

const ISSUER = 'http://127.0.0.1:8002';

const rejects = (options: object, message: RegExp) =>
  assert.rejects(createDevIdp({ issuer: ISSUER, client, ...options }), message);

suite('start', () => {
  test('A server with an invalid option does not start', async () => {
    for (const issuer of [`${ISSUER}/`, 'https://127.0.0.1:8002', 'nonsense']) {
      await rejects({ issuer }, /^TypeError: issuer:/);
    }
    await rejects({ issuer: 'http://192.0.2.1:8002' }, /^RangeError: .*"192\.0\.2\.1"/);
    for (const seconds of [0, -1, 1.5, Number.NaN]) {
      await rejects({ accessTokenSeconds: seconds }, /accessTokenSeconds/);
      await rejects({ refreshTokenSeconds: seconds }, /refreshTokenSeconds/);
    }
    await rejects({ client: { ...client, redirectUris: [] } }, /redirect_uri/);
    const url = 'http://127.0.0.1:8000/webhooks/idp';
    for (const webhook of [
      { url: '127.0.0.1:8000', secret: 'x' },
      { url: 'ftp://127.0.0.1/', secret: 'x' },
      { url, secret: '' },
      { url, secret: 'whsec_?' },
    ]) {
      await rejects({ webhook }, /^TypeError: webhook\./);
    }
  });
});

suite('server', () => {
  test('The server listens on loopback and answers only requests to its name', async (t) => {
    const idp = await createDevIdp({ issuer: ISSUER, client });
    await assert.rejects(idp.app.listen({ host: '0.0.0.0', port: 0 }), /this machine only/);
    await assert.rejects(async () => idp.app.listen({ port: 0, host: '' }), /this machine only/);
    await idp.close();
    const { issuer } = await startIdp(t);
    const { host } = new URL(issuer);
    const get = (hosts: string[]) => {
      const headers = [...hosts.map((name) => `host: ${name}`), 'connection: close'];
      return exchange(issuer, `GET / HTTP/1.1\r\n${headers.join('\r\n')}\r\n\r\n`);
    };
    const rebound = await get(['rebound.example']);
    assert.equal(rebound.status, 421);
    assert.match(rebound.text, new RegExp(`answers at ${issuer} only`));
    assert.equal((await get([host, host])).status, 400);
    assert.equal((await get([host])).status, 200);
  });

  test('The caller can add routes, and unknown addresses get a page', async (t) => {
    const issuer = await findUnusedUrl();
    const idp = await createDevIdp({ issuer, client });
    t.after(() => idp.close());
    idp.app.post('/dev/echo', async ({ body }) => body);
    await idp.app.listen({ host: '127.0.0.1', port: Number(new URL(issuer).port) });
    const headers = { 'content-type': 'application/json' };
    const echo = await send(`${issuer}/dev/echo`, { method: 'POST', headers, body: '{"a":1}' });
    assert.deepEqual(await echo.json(), { a: 1 });
    const icon = await send(`${issuer}/favicon.ico`);
    assert.equal(icon.headers.get('content-type'), 'image/svg+xml');
    const unknown = await send(`${issuer}/nowhere`);
    assert.equal(unknown.status, 404);
    assert.match(await unknown.text(), /There is no such page/);
  });
});

suite('store', () => {
  test('Sign-ins, keys and changed accounts survive a restart', async (t) => {
    const [issuer, storeFile] = [await findUnusedUrl(), storeFileFor(t)];
    const before = await startIdp(t, { issuer, storeFile });
    const tokens = await signIn(issuer);
    const keysOf = async () => (await send(`${issuer}/oauth/jwks`)).text();
    const keys = await keysOf();
    before.idp.setAccess('u-olena', { role_ids: ['svc_admin'], permission_ids: [] });
    before.idp.setBlocked('u-taras', true);
    await before.idp.close();
    const { idp } = await startIdp(t, { issuer, storeFile });
    assert.equal((await userInfo(issuer, tokens)).status, 200);
    assert.equal((await refresh(issuer, tokens)).status, 200);
    assert.equal(await keysOf(), keys);
    assert.deepEqual(
      idp.accounts.map(({ role_ids, blocked }) => [role_ids, blocked]),
      [
        [['svc_admin'], false],
        [['svc_admin'], true],
      ],
    );
  });

  test('The store is readable only by its owner, and all processes share its keys', async (t) => {
    const file = storeFileFor(t);
    const [one, other] = [openDatabase(file), openDatabase(file)];
    const [first, second] = await Promise.all([loadKeys(one), loadKeys(other)]);
    assert.deepEqual(first, second);
    for (const path of [file, `${file}-wal`]) assert.equal(statSync(path).mode & 0o777, 0o600);
    one.exec('pragma user_version = 99');
    one.close();
    other.close();
    assert.throws(() => openDatabase(file), /cannot use its store/, 'another version');
  });
});
