import assert from 'node:assert/strict';
import { mkdirSync, statSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { suite, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { Browser, exchange, startProcess, unusedUrl, until } from '@oselya/testing';
import type { FastifyBaseLogger } from 'fastify';
import { createDevIdp } from '../src/server.ts';
import { createArtifacts, loadKeys, openDatabase } from '../src/store.ts';
import {
  client,
  errorOf,
  openPicker,
  pick,
  refresh,
  send,
  signIn,
  startIdp,
  storeFileFor,
  tokensOf,
  userInfo,
} from './support.ts';

const ISSUER = 'http://127.0.0.1:8002';

const rejects = (options: object, message: RegExp) =>
  assert.rejects(createDevIdp({ issuer: ISSUER, client, ...options }), message);
const ignore = () => {};

suite('options', () => {
  test('that cannot work stop the start', async () => {
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

suite('the server', () => {
  test('listens on this machine, and answers under its own name only', async (t) => {
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

  test('lets the caller add routes, and has an icon and a page for unknown addresses', async (t) => {
    const issuer = await unusedUrl();
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

  test('reports unexpected errors to the log, and hides them from the caller', async (t) => {
    const reported: unknown[] = [];
    const log = {
      level: 'error',
      error: (error: unknown) => reported.push(error),
      fatal: ignore,
      warn: ignore,
      info: ignore,
      debug: ignore,
      trace: ignore,
      silent: ignore,
      child: () => log,
    } as FastifyBaseLogger;
    const storeFile = storeFileFor(t);
    const { issuer } = await startIdp(t, { storeFile, log });
    const tokens = await signIn(issuer);
    const other = new DatabaseSync(storeFile);
    other.exec('drop table artifacts');
    other.close();
    assert.deepEqual(await errorOf(await userInfo(issuer, tokens)), [500, 'server_error']);
    assert.match(String(reported[0]), /no such table/);
  });
});

suite('the store', () => {
  test('keeps sign-ins, keys and changed accounts across a restart', async (t) => {
    const [issuer, storeFile] = [await unusedUrl(), storeFileFor(t)];
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

  test('keeps them when the process is killed, and nothing is printed meanwhile', async (t) => {
    const [issuer, storeFile] = [await unusedUrl(), storeFileFor(t)];
    const script = `
      const { createDevIdp } = await import(${JSON.stringify(new URL('../src/server.ts', import.meta.url))});
      const idp = await createDevIdp(${JSON.stringify({ issuer, storeFile, client })});
      await idp.app.listen({ host: '127.0.0.1', port: ${new URL(issuer).port} });
      console.log('ready');`;
    const running = startProcess(['--input-type=module', '--eval', script], {
      cwd: fileURLToPath(new URL('..', import.meta.url)),
    });
    await until('the provider', () => running.output.stdout === 'ready\n');
    const browser = new Browser();
    const refreshed = await tokensOf(await refresh(issuer, await signIn(issuer)));
    const picker = await openPicker(issuer, browser);
    await running.kill();
    assert.deepEqual(running.output, { stdout: 'ready\n', stderr: '' });
    await startIdp(t, { issuer, storeFile });
    assert.equal((await userInfo(issuer, refreshed)).status, 200);
    const callback = await pick(browser, picker, { account: 'u-olena' });
    assert.ok(callback.searchParams.has('code'));
  });

  test('can be read by its owner only, and gives the same keys to all processes', async (t) => {
    const file = storeFileFor(t);
    const [one, other] = [openDatabase(file), openDatabase(file)];
    const [first, second] = await Promise.all([loadKeys(one), loadKeys(other)]);
    assert.deepEqual(first, second);
    for (const path of [file, `${file}-wal`]) assert.equal(statSync(path).mode & 0o777, 0o600);
    one.exec('pragma user_version = 99');
    one.close();
    other.close();
    assert.throws(() => openDatabase(file), /cannot use its store/, 'of another version');
  });

  test('that is no database stays as it is', (t) => {
    const file = storeFileFor(t);
    mkdirSync(dirname(file));
    writeFileSync(file, 'not a database, but long enough to look like one'.repeat(20));
    assert.throws(() => openDatabase(file), new RegExp(`cannot use its store ${file}.*delete it`));
  });

  test('deletes expired rows, at most once a minute and 500 at a time', async () => {
    let now = 1_000_000;
    const database = openDatabase();
    const tokens = createArtifacts(database, () => now).adapterFor('AccessToken');
    const count = () =>
      Number(database.prepare('select count(*) as rows from artifacts').get()?.['rows']);
    for (let nth = 0; nth < 700; nth += 1) await tokens.upsert(`t${nth}`, {}, 10);
    now += 60;
    await tokens.upsert('a', {}, 1000);
    assert.equal(count(), 201);
    await tokens.upsert('b', {}, 1000);
    assert.equal(count(), 202);
    now += 60;
    await tokens.upsert('c', {}, 1000);
    assert.equal(count(), 3);
  });
});
