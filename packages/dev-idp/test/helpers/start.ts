import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { createDevIdp, type DevIdp, type DevIdpOptions } from '../../src/index.ts';
import { client } from './client.ts';

/** Starts a provider on a free port; it is closed after the test. */
export async function startIdp(
  t: TestContext,
  options: Partial<DevIdpOptions> = {},
): Promise<{ idp: DevIdp; issuer: string }> {
  const issuer = options.issuer ?? (await freeIssuer());
  const idp = await createDevIdp({ client, ...options, issuer });
  t.after(() => idp.close());
  await idp.app.listen({ host: '127.0.0.1', port: Number(new URL(issuer).port) });
  return { idp, issuer };
}

/** An issuer on a port that was free a moment ago: the issuer must be known before the listening. */
export async function freeIssuer(): Promise<string> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  assert.ok(typeof address === 'object' && address);
  server.close();
  await once(server, 'close');
  return `http://127.0.0.1:${address.port}`;
}

/** A path for a store file in a folder of the test's own. */
export function storeFileFor(t: TestContext): string {
  const folder = mkdtempSync(join(tmpdir(), 'dev-idp-'));
  t.after(() => rmSync(folder, { recursive: true }));
  return join(folder, 'state', 'idp.sqlite');
}
