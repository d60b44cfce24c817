import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import { createServer } from 'node:http';
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
const { issuer, urls } = await startPlatform({}, { SVC_AUTH_COOKIE_SAMESITE: 'strict' });
const [lax = '', strict = ''] = urls;
const random = () => randomBytes(32).toString('base64url');

/** A terminal that listens, and what the browser brought it. */
async function listenAsTerminal() {
  const [verifier, state] = [random(), random()];
  const challenge = createHash('sha256').update(verifier).digest('base64url');
  const brought: URLSearchParams[] = [];
  const server = createServer(({ url = '' }, response) => {
    const { pathname, searchParams } = new URL(url, 'http://127.0.0.1');
    if (pathname === '/') brought.push(searchParams);
    response.setHeader('content-type', 'text/html').end('<h1>Go back to the terminal</h1>');
  });
  const port = await listenOnFreePort(server);
  after(() => server.close());
  const query = new URLSearchParams({
    port: String(port),
    state,
    code_challenge: challenge,
    code_challenge_method: 'S256',
  });
  return { verifier, state, mark: challenge.slice(0, 8), port, brought, query: query.toString() };
}

async function comeToPage(page: Page, address: string): Promise<void> {
  await page.goto(address);
  await page.waitForURL(`${issuer}/**`);
  await pick(page, 'Olena');
  await page.getByRole('heading', { name: 'Sign in a terminal?' }).waitFor();
}

for (const [policy, url] of [
  ['Lax', lax],
  ['Strict', strict],
]) {
  test(`a terminal is signed in by a browser whose cookie is ${policy}, after it was asked`, async () => {
    const { context, complaints } = await openBrowser();
    const page = await context.newPage();
    const terminal = await listenAsTerminal();
    await comeToPage(page, `${url}/auth/terminal?${terminal.query}`);
    const shown = await page.locator('main').innerText();
    assert.match(shown, /Olena Koval, olena@example\.test/);
    assert.match(shown, new RegExp(`127\\.0\\.0\\.1:${terminal.port}`));
    assert.equal(await page.locator('#mark').innerText(), terminal.mark);
    assert.equal(terminal.brought.length, 0, 'nothing is brought before the person agrees');
    const background = await styleOf(page, '#confirm', 'background-color');
    assert.equal(background, 'rgb(47, 125, 91)', 'the page has its style');
    const picture = await page.screenshot();
    // A blank page of this size takes about 5 kB.
    assert.ok(picture.length > 10_000, `the page is not blank: ${picture.length} bytes`);

    await page.getByRole('button', { name: 'Sign it in' }).click();
    await page.getByText('Go back to the terminal').waitFor();
    const [brought] = terminal.brought;
    assert.equal(brought?.get('state'), terminal.state);
    const answer = await fetch(`${url}/auth/terminal/token`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ code: brought?.get('code'), code_verifier: terminal.verifier }),
    });
    assert.equal(answer.status, 200);
    const token = (await answer.json()) as { session_id: string; cookie_name: string };
    const me = await fetch(`${url}/auth/me`, {
      headers: { cookie: `${token.cookie_name}=${token.session_id}` },
    });
    assert.match(await me.text(), /olena@example\.test/);
    const cookies = (await context.cookies(url)).map((cookie) => cookie.name);
    assert.ok(!cookies.includes('svc_auth_session'), 'the browser itself is not signed in');
    assert.deepEqual(complaints, []);
  });
}

test('a refusal reaches the terminal', async () => {
  const { context, complaints } = await openBrowser({ javaScriptEnabled: false });
  const page = await context.newPage();
  const terminal = await listenAsTerminal();
  await comeToPage(page, `${lax}/auth/terminal?${terminal.query}`);
  await page.getByRole('button', { name: 'I did not start this' }).click();
  await page.getByText('Go back to the terminal').waitFor();
  assert.equal(terminal.brought[0]?.get('error'), 'access_denied');
  assert.equal(terminal.brought[0]?.get('code'), null);
  assert.deepEqual(complaints, []);
});

test('a page of another origin cannot agree in the name of the person', async () => {
  const { context } = await openBrowser();
  const page = await context.newPage();
  const terminal = await listenAsTerminal();
  await comeToPage(page, `${lax}/auth/terminal?${terminal.query}`);
  const action = await page.locator('form').first().getAttribute('action');
  // Another port is another origin of the same site: the browser's cookie comes along.
  const neighbour = createServer((_request, response) => {
    response
      .setHeader('content-type', 'text/html')
      .end(`<form method="post" action="${lax}${action}"><button>Win</button></form>`);
  });
  after(() => neighbour.close());
  const other = await context.newPage();
  await other.goto(`http://127.0.0.1:${await listenOnFreePort(neighbour)}/`);
  await other.getByRole('button', { name: 'Win' }).click();
  await other.getByText('Request from another site').waitFor();
  assert.equal(terminal.brought.length, 0);
});
