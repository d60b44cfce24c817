import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { findFreePort } from '@oselya/testing';
import { openTestDatabase } from '@oselya/testing/database';
import { start as startAssistant } from '@oselya/assistant';
import { createDevIdp } from '@oselya/dev-idp';
import { createLogger } from '@oselya/kit';
import { type Browser, chromium, type Page } from 'playwright-core';

// Most tests use separate browser windows for the application and the identity provider.

const HOST = '127.0.0.1';
const CLIENT_SECRET = 'browser-test-secret';
const WEBHOOK_SECRET = 'browser-test-webhook-secret';

const browser: Browser = await chromium.launch({
  executablePath: process.env['CHROMIUM_PATH'] ?? '/usr/bin/chromium',
  headless: true,
  args: ['--no-sandbox', '--disable-gpu', '--no-first-run', '--disable-background-networking'],
});
after(() => browser.close());

const [assistantPort, idpPort] = [await findFreePort(), await findFreePort()];
const assistantUrl = `http://${HOST}:${assistantPort}`;
const idpUrl = `http://${HOST}:${idpPort}`;
const idp = await createDevIdp({
  issuer: idpUrl,
  client: {
    id: 'oselya',
    secret: CLIENT_SECRET,
    redirectUris: [`${assistantUrl}/auth/callback`],
  },
  webhook: { url: `${assistantUrl}/webhooks/idp`, secret: WEBHOOK_SECRET },
});
after(idp.close);
await idp.app.listen({ host: HOST, port: idpPort });
const assistant = await startAssistant(
  {
    ASSISTANT_PORT: String(assistantPort),
    BASE_URL: assistantUrl,
    IDP_BASE_URL: idpUrl,
    IDP_CLIENT_ID: 'oselya',
    IDP_CLIENT_SECRET: CLIENT_SECRET,
    IDP_WEBHOOK_SECRET: WEBHOOK_SECRET,
    SVC_AUTH_ENCRYPTION_KEY: Buffer.alloc(32, 7).toString('base64url'),
  },
  {
    database: await openTestDatabase<never>(),
    log: createLogger({ level: 'silent', service: 'assistant' }),
    hasConsole: false,
  },
);
after(assistant.close);

/** Opens a window, and collects its script and content security policy errors. */
async function openWindow(
  options: Parameters<Browser['newPage']>[0] = {},
): Promise<{ page: Page; errors: string[] }> {
  const page = await browser.newPage(options);
  after(() => page.close());
  const errors: string[] = [];
  page.on('pageerror', (error) => errors.push(error.message));
  page.on('console', (message) => {
    if (message.type() === 'error') errors.push(message.text());
  });
  return { page, errors };
}

async function signIn(page: Page, name: string): Promise<void> {
  await page.goto(assistantUrl);
  await page.getByRole('link', { name: 'Sign in' }).click();
  await page.getByRole('button', { name }).click();
  await page.getByText('You are signed in as').waitFor();
}

const clickButton = (page: Page, name: string) =>
  page.getByRole('button', { name, exact: true }).click();

const readNotice = (page: Page) => page.getByRole('status').innerText();

test('a blocked account is signed out of the application by a webhook', async () => {
  const application = await openWindow();
  await signIn(application.page, 'Olena');
  const { page, errors } = await openWindow();
  await page.goto(idpUrl);
  const olena = page.getByRole('region', { name: 'Olena Koval' });
  assert.match(await olena.innerText(), /active/);

  await clickButton(page, 'Block Olena Koval');
  assert.match(
    await readNotice(page),
    /^Olena Koval is blocked, and all sign-ins of the account have ended\.\s+user\.blocked delivered: responded with status 200$/,
  );
  assert.match(await olena.innerText(), /blocked/);
  const list = page.getByRole('region', { name: 'Webhooks' }).getByRole('listitem');
  assert.match(
    await list.first().innerText(),
    /user\.blocked Olena Koval[^]*responded with status 200/,
  );
  // The notice has the focus, so that screen readers announce it.
  assert.equal(await page.evaluate('document.activeElement.getAttribute("role")'), 'status');

  await application.page.reload();
  await application.page.getByText('You are not signed in').waitFor();

  await page.reload();
  assert.equal(await page.getByRole('status').count(), 0);
  await clickButton(page, 'Unblock Olena Koval');
  assert.match(await readNotice(page), /^Olena Koval can sign in again\./);
  await signIn(application.page, 'Olena');
  assert.deepEqual(errors, []);
});

test('roles and permissions change by keyboard', async () => {
  const application = await openWindow();
  await signIn(application.page, 'Olena');
  const { page, errors } = await openWindow();
  await page.goto(idpUrl);
  const olena = page.getByRole('region', { name: 'Olena Koval' });
  await olena.getByText('Change roles and permissions').focus();
  await page.keyboard.press('Enter');
  await olena.getByRole('checkbox', { name: 'svc_admin' }).focus();
  await page.keyboard.press('Space');
  await olena.getByRole('checkbox', { name: 'svc.tools.use' }).focus();
  await page.keyboard.press('Space');
  await page.keyboard.press('Enter');
  assert.match(
    await readNotice(page),
    /^Roles and permissions of Olena Koval are saved\.\s+client\.roles_changed delivered: responded with status 200\s+client\.permissions_changed delivered: responded with status 200$/,
  );
  const response = await application.page.request.get(`${assistantUrl}/auth/me`);
  const me: { role: string; permissions: string[] } = await response.json();
  assert.equal(me.role, 'admin');
  assert.equal(me.permissions.length, 5);
  assert.deepEqual(errors, []);
});

test('a page of the application cannot act at the provider', async () => {
  // A hostile page would have no content security policy, so the test bypasses that of the application.
  const { page } = await openWindow({ bypassCSP: true });
  await page.goto(assistantUrl);
  const countBefore = idp.deliveries.length;
  const formResponse = page.waitForResponse(`${idpUrl}/control/block`);
  await page.evaluate(
    `fetch('${idpUrl}/control/block', {
       method: 'POST', mode: 'no-cors', body: new URLSearchParams({ account: 'u-taras' }),
     })`,
  );
  assert.equal((await formResponse).status(), 403);
  assert.equal(idp.accounts.find(({ sub }) => sub === 'u-taras')?.blocked, false);
  assert.equal(idp.deliveries.length, countBefore);
});

for (const colorScheme of ['light', 'dark'] as const) {
  test(`the page fits a narrow screen, in ${colorScheme}`, async () => {
    const viewport = { width: 360, height: 740 };
    const { page, errors } = await openWindow({ colorScheme, viewport });
    await page.goto(idpUrl);
    await clickButton(page, 'Log everybody out');
    for (const summary of await page.locator('summary').all()) await summary.click();
    assert.equal(await page.evaluate('document.documentElement.scrollWidth'), 360);
    const background = await page.evaluate('getComputedStyle(document.body).backgroundColor');
    assert.equal(background, colorScheme === 'dark' ? 'rgb(19, 23, 21)' : 'rgb(247, 248, 247)');
    assert.deepEqual(errors, []);
  });
}
