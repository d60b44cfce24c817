import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { createServer } from 'node:http';
import { suite, test } from 'node:test';
import { deferCleanup, findFreePort, listen } from '@oselya/testing';
import { openTestDatabase } from '@oselya/testing/database';
import { createDevIdp } from '@oselya/dev-idp';
import { createLogger } from '@oselya/kit';
import {
  type BrowserContext,
  type BrowserContextOptions,
  chromium,
  type Page,
} from 'playwright-core';
import { start } from '../src/main.ts';

const CLIENT = { id: 'oselya', secret: 'browser-test-secret' };

const chrome = await chromium.launch({
  executablePath: process.env['CHROMIUM_PATH'] ?? '/usr/bin/chromium',
  headless: true,
  args: ['--no-sandbox', '--disable-gpu', '--disable-quic', '--disable-background-networking'],
});
deferCleanup(() => chrome.close());

/** Opens a browser, and collects script errors and violations of the content security policy. */
async function openBrowser(
  options: BrowserContextOptions = {},
): Promise<{ context: BrowserContext; violations: string[] }> {
  const context = await chrome.newContext(options);
  const violations: string[] = [];
  context.on('weberror', (error) => violations.push(error.error().message));
  context.on('console', (message) => {
    if (message.text().includes('Content Security Policy')) violations.push(message.text());
  });
  return { context, violations };
}

const database = await openTestDatabase<never>();
const [idpPort, ...ports] = [await findFreePort(), await findFreePort(), await findFreePort()];
// SameSite distinguishes hosts, but not ports, so the provider has a different host.
const issuer = `http://localhost:${idpPort}`;
const redirectUris = ports.map((port) => `http://127.0.0.1:${port}/auth/callback`);
const idp = await createDevIdp({ issuer, client: { ...CLIENT, redirectUris } });
deferCleanup(idp.close);
await idp.app.listen({ host: 'localhost', port: idpPort });

/** Starts an assistant on the shared database and provider. */
async function startAssistant(port: number | undefined, env: Record<string, string> = {}) {
  const settings = {
    ASSISTANT_PORT: String(port),
    BASE_URL: `http://127.0.0.1:${port}`,
    IDP_BASE_URL: issuer,
    IDP_CLIENT_ID: CLIENT.id,
    IDP_CLIENT_SECRET: CLIENT.secret,
    SVC_AUTH_ENCRYPTION_KEY: Buffer.alloc(32, 7).toString('base64url'),
    ...env,
  };
  const log = createLogger({ level: 'silent', service: 'assistant' });
  const assistant = await start(settings, { database, log, hasConsole: false });
  deferCleanup(assistant.close);
  return assistant.url;
}

const laxUrl = await startAssistant(ports[0]);
const strictUrl = await startAssistant(ports[1], {
  SVC_AUTH_COOKIE_SAMESITE: 'strict',
  SVC_AUTH_COOKIE_NAME: 'strict_session',
  IDP_DISCOVERY: 'true',
});

/** Signs in with an account of the provider. */
const pickAccount = (page: Page, name: string) => page.getByRole('button', { name }).click();

suite('browser', async () => {
  const openPicker = async (page: Page, address: string) => {
    await page.goto(address);
    await page.getByRole('link', { name: 'Sign in' }).click();
    await page.waitForURL(`${issuer}/**`);
  };

  type Me = { status: number; user: { email?: string; role?: string } };

  /** Requests the user with the page's cookies, because the policy of the page permits no fetch. */
  async function requestMe(page: Page): Promise<Me> {
    const response = await page.request.get(`${laxUrl}/auth/me`);
    return { status: response.status(), user: await response.json() };
  }

  test('A user signs in and out, and another signs in as an admin', async () => {
    const { context, violations } = await openBrowser();
    const page = await context.newPage();
    await openPicker(page, laxUrl);
    await pickAccount(page, 'Olena');
    await page.waitForURL(`${laxUrl}/`);
    await page.getByText('You are signed in as').waitFor();
    assert.match(await page.locator('main').innerText(), /Olena Koval[\s\S]*olena@example\.test/);

    const cookie = (await context.cookies(laxUrl)).find(({ name }) => name === 'svc_auth_session');
    assert.partialDeepStrictEqual(cookie, { httpOnly: true, sameSite: 'Lax' });
    assert.equal(await page.evaluate('document.cookie'), '');
    const { user } = await requestMe(page);
    assert.deepEqual([user.email, user.role], ['olena@example.test', 'user']);

    await page.getByRole('button', { name: 'Sign out' }).click();
    await page.getByText('You are not signed in').waitFor();
    assert.equal((await requestMe(page)).status, 401);
    const remainingCookies = (await context.cookies(laxUrl)).map(({ name }) => name);
    assert.ok(!remainingCookies.includes('svc_auth_session'));

    await openPicker(page, laxUrl);
    await pickAccount(page, 'Taras');
    await page.getByText('You are signed in as').waitFor();
    assert.equal((await requestMe(page)).user.role, 'admin');
    assert.deepEqual(violations, []);
  });

  test('A Strict cookie survives two sign-ins with discovery', async () => {
    const { context, violations } = await openBrowser();
    const page = await context.newPage();
    for (const name of ['Olena', 'Taras']) {
      await context.clearCookies({ name: 'strict_session' });
      await openPicker(page, strictUrl);
      await pickAccount(page, name);
      await page.waitForURL(`${strictUrl}/`);
      await page.getByText('You are signed in as').waitFor();
      assert.match(await page.locator('main').innerText(), new RegExp(name));
    }
    const cookie = (await context.cookies(strictUrl)).find(({ name }) => name === 'strict_session');
    assert.equal(cookie?.sameSite, 'Strict');
    assert.deepEqual(violations, []);
  });
});

suite('terminal', async () => {
  const createRandomText = () => randomBytes(32).toString('base64url');

  /** Starts the server of a terminal, and collects the queries of the browser. */
  async function listenAsTerminal() {
    const [challenge, state] = [createRandomText(), createRandomText()];
    const queries: URLSearchParams[] = [];
    const server = createServer(({ url = '' }, response) => {
      const { pathname, searchParams } = new URL(url, 'http://127.0.0.1');
      if (pathname === '/') queries.push(searchParams);
      response.setHeader('content-type', 'text/html').end('<h1>Go back to the terminal</h1>');
    });
    const port = await listen(server);
    deferCleanup(() => void server.close());
    const query = new URLSearchParams({
      port: String(port),
      state,
      code_challenge: challenge,
      code_challenge_method: 'S256',
    });
    return { state, mark: challenge.slice(0, 8), port, queries, query: query.toString() };
  }

  async function openConfirmation(page: Page, address: string): Promise<void> {
    await page.goto(address);
    await page.waitForURL(`${issuer}/**`);
    await pickAccount(page, 'Olena');
    await page.getByRole('heading', { name: 'Sign in a terminal?' }).waitFor();
  }

  test('A terminal is signed in after the confirmation of the user', async () => {
    const { context, violations } = await openBrowser();
    const page = await context.newPage();
    const terminalServer = await listenAsTerminal();
    await openConfirmation(page, `${strictUrl}/auth/terminal?${terminalServer.query}`);
    const visibleText = await page.locator('main').innerText();
    assert.match(visibleText, /Olena Koval, olena@example\.test/);
    assert.match(visibleText, new RegExp(`127\\.0\\.0\\.1:${terminalServer.port}`));
    assert.equal(await page.locator('#mark').innerText(), terminalServer.mark);
    assert.equal(terminalServer.queries.length, 0, 'nothing is sent before the user agrees');
    // The style applies only if the policy contains its hash.
    const background = await page.evaluate<string>(
      `getComputedStyle(document.querySelector('#confirm')).getPropertyValue('background-color')`,
    );
    assert.equal(background, 'rgb(47, 125, 91)');
    await page.getByRole('button', { name: 'Sign it in' }).click();
    await page.getByText('Go back to the terminal').waitFor();
    const [query] = terminalServer.queries;
    assert.equal(query?.get('state'), terminalServer.state);
    const cookies = (await context.cookies(strictUrl)).map((cookie) => cookie.name);
    assert.ok(!cookies.includes('strict_session'), 'the browser itself is not signed in');
    assert.deepEqual(violations, []);
  });
});

suite('Android', async () => {
  const WEB_VIEW =
    'Mozilla/5.0 (Linux; Android 15; Pixel 8; wv) AppleWebKit/537.36 Chrome/140.0 Mobile Safari/537.36 SvcAndroid/1.0';

  const SYSTEM_BROWSER =
    'Mozilla/5.0 (Linux; Android 15; Pixel 8) AppleWebKit/537.36 Chrome/140.0.0.0 Mobile Safari/537.36';

  test('A sign-in of a web view ends at the bridge page in the system browser', async () => {
    const webView = await openBrowser({ userAgent: WEB_VIEW });
    const loginResponse = await webView.context.request.get(`${laxUrl}/auth/login`, {
      maxRedirects: 0,
    });
    const authorize = loginResponse.headers()['location'] ?? '';
    assert.ok(authorize.startsWith(`${issuer}/oauth/authorize?`));

    // The application opens the provider in the system browser.
    const system = await openBrowser({ userAgent: SYSTEM_BROWSER });
    const page = await system.context.newPage();
    const devtools = await system.context.newCDPSession(page);
    await devtools.send('Page.enable');
    const navigations: string[] = [];
    devtools.on('Page.frameRequestedNavigation', ({ url }) => navigations.push(url));
    const bridgeEvent = page.waitForResponse((response) =>
      response.url().includes('/auth/mobile-done'),
    );
    const callbackEvent = page.waitForResponse((response) =>
      response.url().includes('/auth/callback'),
    );
    await page.goto(authorize);
    await pickAccount(page, 'Olena');

    const callbackResponse = await callbackEvent;
    assert.equal(callbackResponse.status(), 302);
    assert.ok(!('set-cookie' in (await callbackResponse.allHeaders())), 'it sets no cookie');
    const bridgeResponse = await bridgeEvent;
    const sid = new URL(bridgeResponse.url()).searchParams.get('sid') ?? '';
    assert.match(sid, /^[A-Za-z0-9_-]{43}$/);
    assert.equal(bridgeResponse.url(), `${laxUrl}/auth/mobile-done?sid=${sid}`);

    const intent = `intent://auth/callback?sid=${sid}#Intent;scheme=svc;package=app.oselya.android;end`;
    const button = page.getByRole('link', { name: 'Open the application' });
    await button.waitFor({ timeout: 5000 });
    assert.deepEqual(
      navigations.filter((url) => url.startsWith('intent:')),
      [intent],
    );
    assert.equal(await button.getAttribute('href'), intent);
    assert.deepEqual(await system.context.cookies(laxUrl), []);

    assert.deepEqual(system.violations, []);
  });
});
