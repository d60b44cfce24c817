import assert from 'node:assert/strict';
import { createServer as createHttpServer } from 'node:http';
import { type AddressInfo, createServer, type Server } from 'node:net';
import { after, test } from 'node:test';
import { openTestDatabase } from '@oselya/db/testing';
import { createDevIdp } from '@oselya/dev-idp';
import { createLogger } from '@oselya/kit';
import { type BrowserContext, chromium, type Page } from 'playwright-core';
import { start } from '../src/main.ts';

const CLIENT = { id: 'oselya', secret: 'browser-test-secret' };
const ARGUMENTS = [
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
];

const browser = await chromium.launch({
  executablePath: process.env['CHROMIUM_PATH'] ?? '/usr/bin/chromium',
  headless: true,
  args: ARGUMENTS,
});
after(() => browser.close());

const database = await openTestDatabase<never>();
const [laxPort, strictPort, idpPort] = [await freePort(), await freePort(), await freePort()];
// To a browser another host is another site, which is what SameSite is about; another port is not.
const issuer = `http://localhost:${idpPort}`;
const idp = await createDevIdp({
  issuer,
  client: {
    ...CLIENT,
    redirectUris: [laxPort, strictPort].map((port) => `http://127.0.0.1:${port}/auth/callback`),
  },
});
after(idp.close);
await idp.app.listen({ host: 'localhost', port: idpPort });

const lax = await startAssistant(laxPort, {});
const strict = await startAssistant(strictPort, {
  SVC_AUTH_COOKIE_SAMESITE: 'strict',
  SVC_AUTH_COOKIE_NAME: 'strict_session',
  IDP_DISCOVERY: 'true',
});

async function startAssistant(port: number, env: Record<string, string>): Promise<string> {
  const running = await start(
    {
      ASSISTANT_PORT: String(port),
      BASE_URL: `http://127.0.0.1:${port}`,
      IDP_BASE_URL: issuer,
      IDP_CLIENT_ID: CLIENT.id,
      IDP_CLIENT_SECRET: CLIENT.secret,
      SVC_AUTH_ENCRYPTION_KEY: Buffer.alloc(32, 7).toString('base64url'),
      ...env,
    },
    { database, log: createLogger({ level: 'silent', service: 'assistant' }) },
  );
  after(running.close);
  return running.url;
}

async function listenOnFreePort(server: Server): Promise<number> {
  await new Promise<void>((resolve) => {
    server.listen(0, '127.0.0.1', resolve);
  });
  return (server.address() as AddressInfo).port;
}

async function freePort(): Promise<number> {
  const server = createServer();
  const port = await listenOnFreePort(server);
  await new Promise((resolve) => {
    server.close(resolve);
  });
  return port;
}

/** A browser of its own, whose pages must not break a content security policy or fail in a script. */
async function openBrowser(): Promise<{ context: BrowserContext; complaints: string[] }> {
  const context = await browser.newContext();
  after(() => context.close());
  const complaints: string[] = [];
  context.on('weberror', (error) => complaints.push(error.error().message));
  context.on('console', (message) => {
    if (message.text().includes('Content Security Policy')) complaints.push(message.text());
  });
  return { context, complaints };
}

const openPicker = async (page: Page, address: string) => {
  await page.goto(address);
  await page.getByRole('link', { name: 'Sign in' }).click();
  await page.waitForURL(`${issuer}/**`);
};

const pick = (page: Page, name: string) => page.getByRole('button', { name }).click();

type Me = { status: number; user: { email?: string; role?: string } };

// What runs in the page is text: the types here are those of Node, not of a browser.
const me = (page: Page) =>
  page.evaluate<Me>(
    `fetch('/auth/me').then(async (answer) => ({ status: answer.status, user: await answer.json() }))`,
  );

const styleOf = (page: Page, selector: string, property: string) =>
  page.evaluate<string>(
    `getComputedStyle(document.querySelector('${selector}')).getPropertyValue('${property}')`,
  );

test('sign in, see who one is, sign out, and come back as the admin', async () => {
  const { context, complaints } = await openBrowser();
  const page = await context.newPage();
  await openPicker(page, lax);
  await pick(page, 'Olena');
  await page.waitForURL(`${lax}/`);
  await page.getByText('You are signed in as').waitFor();
  assert.match(await page.locator('main').innerText(), /Olena Koval[\s\S]*olena@example\.test/);

  const cookie = (await context.cookies(lax)).find(({ name }) => name === 'svc_auth_session');
  assert.equal(cookie?.httpOnly, true);
  assert.equal(cookie?.sameSite, 'Lax');
  assert.equal(await page.evaluate('document.cookie'), '');
  const olena = await me(page);
  assert.equal(olena.user.email, 'olena@example.test');
  assert.equal(olena.user.role, 'user');
  const background = await styleOf(page, '#sign-out', 'background-color');
  assert.equal(background, 'rgb(47, 125, 91)', 'the page has its style');

  await page.getByRole('button', { name: 'Sign out' }).click();
  await page.getByText('You are not signed in').waitFor();
  assert.equal((await me(page)).status, 401);
  const left = (await context.cookies(lax)).map(({ name }) => name);
  assert.ok(!left.includes('svc_auth_session'));

  await openPicker(page, lax);
  await pick(page, 'Taras');
  await page.getByText('You are signed in as').waitFor();
  assert.equal((await me(page)).user.role, 'admin');
  assert.deepEqual(complaints, []);
});

test('a Strict cookie arrives, also at the second sign-in, with discovery', async () => {
  const { context, complaints } = await openBrowser();
  const page = await context.newPage();
  for (const name of ['Olena', 'Taras']) {
    await context.clearCookies({ name: 'strict_session' });
    await openPicker(page, strict);
    await pick(page, name);
    await page.waitForURL(`${strict}/`);
    await page.getByText('You are signed in as').waitFor();
    assert.match(await page.locator('main').innerText(), new RegExp(name));
  }
  const cookie = (await context.cookies(strict)).find(({ name }) => name === 'strict_session');
  assert.equal(cookie?.sameSite, 'Strict');
  assert.deepEqual(complaints, []);
});

test('two tabs sign in at once', async () => {
  const { context } = await openBrowser();
  const first = await context.newPage();
  const second = await context.newPage();
  await openPicker(first, lax);
  await openPicker(second, lax);
  await pick(first, 'Olena');
  await first.getByText('You are signed in as').waitFor();
  await pick(second, 'Olena');
  await second.getByText('You are signed in as').waitFor();
  await first.reload();
  await first.getByText('You are signed in as').waitFor();
});

test('a sign-in that is cancelled at the provider ends on a page that says so', async () => {
  const { context } = await openBrowser();
  const page = await context.newPage();
  await openPicker(page, lax);
  await pick(page, 'Cancel');
  await page.waitForURL(`${lax}/**`);
  await page.getByRole('heading', { name: 'refused the sign-in' }).waitFor();
  await page.getByRole('link', { name: 'Back to the start' }).click();
  await page.getByText('You are not signed in').waitFor();
});

test('a page of another origin cannot sign out, though the cookie comes along', async () => {
  const { context } = await openBrowser();
  const page = await context.newPage();
  await openPicker(page, lax);
  await pick(page, 'Olena');
  await page.getByText('You are signed in as').waitFor();
  // Another port is another origin of the same site, so SameSite does not help.
  const neighbour = createHttpServer((_request, response) => response.end('a page'));
  after(() => neighbour.close());
  const port = await listenOnFreePort(neighbour);
  const other = await context.newPage();
  await other.goto(`http://127.0.0.1:${port}/`);
  await other.evaluate(
    `fetch('${lax}/auth/logout', { method: 'POST', credentials: 'include', mode: 'no-cors' })
       .catch(() => undefined)`,
  );
  // The other page does not get to see the answer, but the service counts what it answered.
  const metrics = await (await fetch(`${lax}/metrics`)).text();
  const counted = metrics.split('\n').filter((line) => line.includes('_count{method="POST"'));
  assert.match(counted.join('\n'), /route="\/auth\/logout",status="403"\} 1$/m);
  await page.reload();
  await page.getByText('You are signed in as').waitFor();
});

test('the bridge page shows its button after 1.5 s where the intent leads nowhere', async () => {
  const { context, complaints } = await openBrowser();
  const page = await context.newPage();
  // The page never ends to load while the browser wonders what to do with the intent.
  await page.goto(`${lax}/auth/mobile-done?sid=${'A'.repeat(43)}`, { waitUntil: 'commit' });
  const button = page.getByRole('link', { name: 'Open the application' });
  await page.getByRole('heading', { name: 'You are signed in' }).waitFor();
  assert.equal(await button.isVisible(), false);
  await button.waitFor({ timeout: 5000 });
  assert.equal(await styleOf(page, 'main', 'border-top-color'), 'rgb(63, 185, 80)');
  assert.deepEqual(complaints, []);
});
