import assert from 'node:assert/strict';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { openAsBlob } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import {
  type ScriptedResponse,
  deferCleanup,
  Browser,
  exchange,
  runProcess,
  startProcess,
  startProxy,
  startServer,
  until,
  findUnusedUrl,
} from '../src/index.ts';
import { createImageFile } from '../src/pglite-images.ts';

const CHILD = join(import.meta.dirname, 'child.ts');

test('until returns the result of its condition, and names an unmet condition', async () => {
  let checks = 0;
  assert.equal(await until('three', () => (checks += 1) === 3 && checks), 3);
  await assert.rejects(
    until('nothing', () => false, 1),
    /in vain for nothing, 1 ms/,
  );
  await assert.rejects(
    until(() => undefined, { limitMs: 1 }),
    /in vain for the condition/,
  );
});

test('a server plays its script and records the requests', async () => {
  const answers: ScriptedResponse[] = [{ status: 201, body: { made: true } }, 'reset', 'cut'];
  const server = await startServer(() => answers.shift() ?? 'silence');
  const response = await fetch(server.url, { method: 'POST', body: '{"a":1}' });
  assert.deepEqual([response.status, await response.json()], [201, { made: true }]);
  assert.deepEqual(server.requests[0]?.body, { a: 1 });
  await assert.rejects(fetch(server.url));
  await assert.rejects(fetch(server.url).then((cut) => cut.text()));
  await assert.rejects(fetch(await findUnusedUrl()));
});

test('a browser keeps cookies by path, follows redirects and submits forms', async () => {
  const answers: Record<string, ScriptedResponse> = {
    '/': { status: 302, headers: { location: '/form', 'set-cookie': 'a=1; Path=/; Max-Age=9' } },
    '/form': {
      headers: { 'set-cookie': 'b=2; Path=/other' },
      body: '<form method="post" action="/end?x=&#38;"><input type="hidden" name="n" value="1">',
    },
    '/end?x=&': { headers: { 'set-cookie': 'a=; Path=/; Max-Age=0' }, body: 'done' },
  };
  const server = await startServer(({ path }) => answers[path] ?? { status: 404 });
  const browser = new Browser();
  const page = await browser.submit(await browser.open(server.url), { more: '2' });
  assert.equal(page.body, 'done');
  const sent = server.requests.map(({ path, headers, text }) => [path, headers.cookie, text]);
  assert.deepEqual(sent, [
    ['/', undefined, ''],
    ['/form', 'a=1', ''],
    ['/end?x=&', 'a=1', 'n=1&more=2'],
  ]);
  assert.deepEqual(browser.cookieNames, ['b']);
});

test('a proxy passes, delays, freezes and breaks connections', async () => {
  const server = await startServer(() => ({ body: 'here' }));
  const proxy = await startProxy(server.url);
  const request = 'GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n';
  proxy.way.delayMs = 1;
  assert.match((await exchange(proxy.url, request)).text, /here\r\n/);
  proxy.freeze(true);
  const frozenResponse = exchange(proxy.url, request);
  await until('the connection', () => proxy.connections() === 1);
  proxy.freeze(false);
  assert.equal((await frozenResponse).status, 200);
  proxy.freeze(true);
  const brokenResponse = exchange(proxy.url, request);
  await until('the connection', () => proxy.connections() === 1);
  proxy.cut();
  await assert.rejects(brokenResponse);
});

test('a process gets its arguments, environment and input, and can be killed', async () => {
  const { status, stdout } = await runProcess([CHILD, 'ready'], { input: 'this' });
  assert.deepEqual([status, stdout], [0, 'read this']);
  const running = startProcess([CHILD, 'ready']);
  assert.equal(await running.message(), 'ready');
  await running.kill();
  assert.equal((await running.ended).signal, 'SIGKILL');
  await assert.rejects(startProcess(['-e', 'process.exit(3)']).message(), /ended with 3/);
});

test('an image stays readable when another process makes the same one', async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'oselya-images-'));
  deferCleanup(() => rm(folder, { recursive: true }));
  await writeFile(join(folder, '0001_first.sql'), 'select 1;\n');
  const migrated = {
    state: `test-${process.pid}`,
    migrations: [{ component: 'images', folder }],
  };
  const imageFiles = [createImageFile(migrated), createImageFile(migrated)];
  const file = await Promise.race(imageFiles);
  t.after(() => rm(file));
  const opened = await openAsBlob(file);
  const [one, other] = await Promise.all(imageFiles);
  assert.equal(one, other);
  assert.equal((await opened.arrayBuffer()).byteLength, (await readFile(file)).byteLength);
});
