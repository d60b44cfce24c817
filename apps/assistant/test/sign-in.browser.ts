import assert from 'node:assert/strict';
import { createServer as createHttpServer } from 'node:http';
import { after, test } from 'node:test';
import type { Page } from 'playwright-core';
import {
  listenOnFreePort,
  openChromium,
  pick,
  startPlatform,
  styleOf,
} from './helpers/chromium.ts';

const openBrowser = await openChromium();
const { issuer, urls } = await startPlatform(
  {},
  {
    SVC_AUTH_COOKIE_SAMESITE: 'strict',
    SVC_AUTH_COOKIE_NAME: 'strict_session',
    IDP_DISCOVERY: 'true',
  },
);
const [lax = '', strict = ''] = urls;

const openPicker = async (page: Page, address: string) => {
  await page.goto(address);
  await page.getByRole('link', { name: 'Sign in' }).click();
  await page.waitForURL(`${issuer}/**`);
};

type Me = { status: number; user: { email?: string; role?: string } };

/** With the cookies of the page; the page itself may fetch nothing. */
async function me(page: Page): Promise<Me> {
  const answer = await page.request.get(`${lax}/auth/me`);
  return { status: answer.status(), user: await answer.json() };
}

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
  await page.getByRole('heading', { name: 'You did not sign in' }).waitFor();
  await page.getByRole('link', { name: 'Sign in again' }).click();
  await page.waitForURL(`${issuer}/**`);
  await pick(page, 'Olena');
  await page.getByText('You are signed in as').waitFor();
});

test('signing out needs no script', async () => {
  const { context } = await openBrowser({ javaScriptEnabled: false });
  const page = await context.newPage();
  await openPicker(page, lax);
  await pick(page, 'Olena');
  await page.getByText('You are signed in as').waitFor();
  await page.getByRole('button', { name: 'Sign out' }).click();
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
