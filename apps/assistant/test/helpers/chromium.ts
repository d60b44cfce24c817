import type { Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { after } from 'node:test';
import { freePort } from '@oselya/kit/testing';
import { openTestDatabase } from '@oselya/db/testing';
import { createDevIdp } from '@oselya/dev-idp';
import { createLogger } from '@oselya/kit';
import {
  type BrowserContext,
  type BrowserContextOptions,
  chromium,
  type Page,
} from 'playwright-core';
import { start } from '../../src/main.ts';

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

/**
 * Chromium for one test file.
 * @returns A function that opens a browser of its own, whose pages must not break a content security
 * policy or fail in a script.
 */
export async function openChromium() {
  const browser = await chromium.launch({
    executablePath: process.env['CHROMIUM_PATH'] ?? '/usr/bin/chromium',
    headless: true,
    args: ARGUMENTS,
  });
  after(() => browser.close());

  return async (
    options: BrowserContextOptions = {},
  ): Promise<{ context: BrowserContext; complaints: string[] }> => {
    const context = await browser.newContext(options);
    after(() => context.close());
    const complaints: string[] = [];
    context.on('weberror', (error) => complaints.push(error.error().message));
    context.on('console', (message) => {
      if (message.text().includes('Content Security Policy')) complaints.push(message.text());
    });
    return { context, complaints };
  };
}

/**
 * Assistants that share a database and a development provider, one for each environment given. To a
 * browser another host is another site, which is what SameSite is about; another port is not.
 */
export async function startPlatform(...environments: Record<string, string>[]) {
  const database = await openTestDatabase<never>();
  const ports = await Promise.all(environments.map(() => freePort()));
  const idpPort = await freePort();
  const issuer = `http://localhost:${idpPort}`;
  const idp = await createDevIdp({
    issuer,
    client: {
      ...CLIENT,
      redirectUris: ports.map((port) => `http://127.0.0.1:${port}/auth/callback`),
    },
  });
  after(idp.close);
  await idp.app.listen({ host: 'localhost', port: idpPort });

  const urls: string[] = [];
  for (const [index, port] of ports.entries()) {
    const running = await start(
      {
        ASSISTANT_PORT: String(port),
        BASE_URL: `http://127.0.0.1:${port}`,
        IDP_BASE_URL: issuer,
        IDP_CLIENT_ID: CLIENT.id,
        IDP_CLIENT_SECRET: CLIENT.secret,
        SVC_AUTH_ENCRYPTION_KEY: Buffer.alloc(32, 7).toString('base64url'),
        ...environments[index],
      },
      { database, log: createLogger({ level: 'silent', service: 'assistant' }) },
    );
    after(running.close);
    urls.push(running.url);
  }
  return { issuer, urls };
}

/** Makes a server listen on this machine, and gives the port. */
export async function listenOnFreePort(server: Server): Promise<number> {
  await new Promise<void>((resolve) => {
    server.listen(0, '127.0.0.1', resolve);
  });
  return (server.address() as AddressInfo).port;
}

/** A computed style of the page's first element that fits. */
export const styleOf = (page: Page, selector: string, property: string) =>
  page.evaluate<string>(
    `getComputedStyle(document.querySelector('${selector}')).getPropertyValue('${property}')`,
  );

/** Signs in: picks an account at the provider. */
export const pick = (page: Page, name: string) => page.getByRole('button', { name }).click();
