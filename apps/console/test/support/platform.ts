import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { start as startAssistant } from '@oselya/assistant';
import { start as startCollector } from '@oselya/collector';
import { createDevIdp } from '@oselya/dev-idp';
import { createLogger } from '@oselya/kit';
import { deferCleanup, findFreePort, openFolder, startProxy, until } from '@oselya/testing';
import { openTestDatabase } from '@oselya/testing/database';
import { type BrowserContextOptions, chromium, type Page } from 'playwright-core';

const CLIENT_SECRET = 'browser-test-secret';
const WEBHOOK_SECRET = 'browser-test-webhooks';

/** Much longer than any step takes, even on a busy machine. */
const TIMEOUT_MS = 45_000;

export type Platform = Awaited<ReturnType<typeof startPlatform>>;

/** Starts the platform with the built console, and a browser. They are closed after the tests of the file. */
export async function startPlatform(env: Record<string, string> = {}) {
  const database = await openTestDatabase<never>();
  const [port, collectorPort, idpPort] = [
    await findFreePort(),
    await findFreePort(),
    await findFreePort(),
  ];
  // Browsers reach the assistant through a proxy, which can break their connections.
  const proxy = await startProxy(`http://127.0.0.1:${port}`);
  const { url } = proxy;
  // Cookies distinguish hosts, but not ports, so the provider has a different host.
  const issuer = `http://localhost:${idpPort}`;
  const log = createLogger({ level: 'silent', service: 'test' });
  const shared = { database, log };
  const collector = await startCollector(
    {
      COLLECTOR_PORT: String(collectorPort),
      DATA_DIR: await openFolder(),
      // All tests of a file search as one user.
      COLLECTOR_FULLTEXT_PER_MINUTE: '1000',
    },
    shared,
  );
  deferCleanup(collector.close);
  const idp = await createDevIdp({
    issuer,
    client: { id: 'oselya', secret: CLIENT_SECRET, redirectUris: [`${url}/auth/callback`] },
    webhook: { url: `http://127.0.0.1:${port}/webhooks/idp`, secret: WEBHOOK_SECRET },
  });
  deferCleanup(idp.close);
  await idp.app.listen({ host: 'localhost', port: idpPort });
  const assistantEnv = {
    ASSISTANT_PORT: String(port),
    BASE_URL: url,
    IDP_BASE_URL: issuer,
    IDP_CLIENT_ID: 'oselya',
    IDP_CLIENT_SECRET: CLIENT_SECRET,
    IDP_WEBHOOK_SECRET: WEBHOOK_SECRET,
    SVC_AUTH_ENCRYPTION_KEY: Buffer.alloc(32, 7).toString('base64url'),
    COLLECTOR_URL: collector.url,
    ...env,
  };
  let assistant = await startAssistant(assistantEnv, shared);
  deferCleanup(() => assistant.close());
  const browser = await chromium.launch({
    executablePath: process.env['CHROMIUM_PATH'] ?? '/usr/bin/chromium',
    args: ['--no-sandbox', '--disable-gpu', '--disable-quic', '--disable-background-networking'],
  });
  deferCleanup(() => browser.close());

  return {
    url,
    idpUrl: issuer,
    database,
    idp,
    proxy,
    /** Stops the assistant and starts it again. */
    async restartAssistant(): Promise<void> {
      await assistant.close();
      assistant = await startAssistant(assistantEnv, shared);
    },
    /** Sends payloads to the collector, and waits until all are processed. */
    async ingest(payloads: readonly object[]): Promise<void> {
      for (const payload of payloads) {
        const response = await fetch(`${collector.url}/api/v1/ingest`, {
          method: 'POST',
          headers: { 'content-type': 'application/json' },
          body: JSON.stringify(payload),
        });
        assert.equal(response.status, 202, await response.text());
      }
      await until('all payloads to be processed', async () => {
        const response = await fetch(`${collector.url}/api/v1/admin/queue`);
        const { counts } = (await response.json()) as { counts: Record<string, number> };
        return counts['pending'] === 0 && counts['processing'] === 0;
      });
    },
    /** Opens a window, and collects script errors, violations of the policy and requests to other origins. */
    async openWindow(options: BrowserContextOptions = {}) {
      const context = await browser.newContext({ locale: 'en', ...options });
      context.setDefaultTimeout(TIMEOUT_MS);
      const faults: string[] = [];
      context.on('weberror', (error) => faults.push(error.error().message));
      context.on('console', (message) => {
        if (message.text().includes('Content Security Policy')) faults.push(message.text());
      });
      context.on('request', (request) => {
        const { origin, protocol } = new URL(request.url());
        if (protocol.startsWith('http') && origin !== url && origin !== issuer)
          faults.push(`request to ${request.url()}`);
      });
      return { context, page: await context.newPage(), faults };
    },
  };
}

/** Signs in from the page that is open, with an account of the development provider. */
export async function signIn(page: Page, name = 'Olena'): Promise<void> {
  await page.getByRole('link', { name: 'Sign in' }).click();
  await page.getByRole('button', { name }).click();
  await page.getByRole('button', { name: new RegExp(name) }).waitFor();
}

/** Waits until the page has loaded its data. */
export async function waitUntilIdle(page: Page): Promise<void> {
  await page.locator('main h1').first().waitFor();
  await page.locator('[aria-busy=true]').first().waitFor({ state: 'detached' });
}

const axeSource = await readFile(
  createRequire(import.meta.url).resolve('axe-core/axe.min.js'),
  'utf8',
);

const AXE_TAGS = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'];

/** Fails if axe finds a violation in the page. */
export async function checkAccessibility(page: Page, name: string): Promise<void> {
  // The policy of the page permits no script element, but the test may evaluate a script.
  await page.evaluate(axeSource);
  const violations = await page.evaluate<Violation[]>(
    `axe.run('html', { runOnly: ${JSON.stringify(AXE_TAGS)} }).then(({ violations }) => violations)`,
  );
  const findings = violations.flatMap(({ id, nodes }) =>
    nodes.map(({ html, failureSummary }) => `${id}: ${html.slice(0, 200)} ${failureSummary}`),
  );
  assert.deepEqual(findings, [], name);
}

type Violation = { id: string; nodes: { html: string; failureSummary: string }[] };
