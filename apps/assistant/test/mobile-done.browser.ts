import assert from 'node:assert/strict';
import { test } from 'node:test';
import { openChromium, pick, startPlatform, styleOf } from './helpers/chromium.ts';

const WEB_VIEW =
  'Mozilla/5.0 (Linux; Android 15; Pixel 8; wv) AppleWebKit/537.36 Chrome/140.0 Mobile Safari/537.36 SvcAndroid/1.0';

const SYSTEM_BROWSER =
  'Mozilla/5.0 (Linux; Android 15; Pixel 8) AppleWebKit/537.36 Chrome/140.0.0.0 Mobile Safari/537.36';

const openBrowser = await openChromium();
const { issuer, urls } = await startPlatform({});
const [assistant = ''] = urls;

test('a sign-in begun in the web view ends at the bridge page in the system browser', async () => {
  const webView = await openBrowser({ userAgent: WEB_VIEW });
  const answer = await webView.context.request.get(`${assistant}/auth/login`, { maxRedirects: 0 });
  const authorize = answer.headers()['location'] ?? '';
  assert.ok(authorize.startsWith(`${issuer}/oauth/authorize?`));

  // The application opens the provider in the system browser, which never saw the assistant before.
  const system = await openBrowser({ userAgent: SYSTEM_BROWSER });
  const page = await system.context.newPage();
  const devtools = await system.context.newCDPSession(page);
  await devtools.send('Page.enable');
  const goneTo: string[] = [];
  devtools.on('Page.frameRequestedNavigation', ({ url }) => goneTo.push(url));
  const bridge = page.waitForResponse((response) => response.url().includes('/auth/mobile-done'));
  const callback = page.waitForResponse((response) => response.url().includes('/auth/callback'));
  await page.goto(authorize);
  await pick(page, 'Olena');

  const back = await callback;
  assert.equal(back.status(), 302);
  assert.equal((await back.allHeaders())['set-cookie'], undefined, 'the callback sets no cookie');
  const shown = await bridge;
  const sid = new URL(shown.url()).searchParams.get('sid') ?? '';
  assert.match(sid, /^[A-Za-z0-9_-]{43}$/);
  assert.equal(shown.url(), `${assistant}/auth/mobile-done?sid=${sid}`);
  const headers = await shown.allHeaders();
  assert.equal(headers['cache-control'], 'no-store');
  assert.equal(headers['referrer-policy'], 'no-referrer');
  assert.match(headers['content-security-policy'] ?? '', /^default-src 'none'/);

  const intent = `intent://auth/callback?sid=${sid}#Intent;scheme=svc;package=app.oselya.android;end`;
  const button = page.getByRole('link', { name: 'Open the application' });
  await button.waitFor({ timeout: 5000 });
  assert.deepEqual(
    goneTo.filter((url) => url.startsWith('intent:')),
    [intent],
    'the page goes to the intent at once',
  );
  assert.equal(await button.getAttribute('href'), intent);
  assert.deepEqual(await system.context.cookies(assistant), []);

  // The application sets the cookie in its web view, and is signed in.
  await webView.context.addCookies([{ name: 'svc_auth_session', value: sid, url: assistant }]);
  const me = await webView.context.request.get(`${assistant}/auth/me`);
  assert.equal(me.status(), 200);
  assert.equal((await me.json()).email, 'olena@example.test');
  assert.deepEqual(system.complaints, []);
});

test('the bridge page is dark and shows its button after 1.5 s where the intent leads nowhere', async () => {
  const { context, complaints } = await openBrowser({ userAgent: SYSTEM_BROWSER });
  const page = await context.newPage();
  // The page's time stands still but for what is run of it here.
  await page.clock.install({ time: 0 });
  await page.clock.pauseAt(1000);
  // The page never ends to load while the browser wonders what to do with the intent.
  await page.goto(`${assistant}/auth/mobile-done?sid=${'A'.repeat(43)}`, { waitUntil: 'commit' });
  const button = page.getByRole('link', { name: 'Open the application' });
  await page.getByRole('heading', { name: 'You are signed in' }).waitFor();
  await page.clock.runFor(1499);
  assert.equal(await button.isVisible(), false);
  await page.clock.runFor(1);
  assert.equal(await button.isVisible(), true);
  assert.equal(await styleOf(page, 'main', 'border-top-color'), 'rgb(63, 185, 80)');
  assert.equal(await styleOf(page, 'body', 'background-color'), 'rgb(16, 20, 24)');
  assert.deepEqual(complaints, []);
});
