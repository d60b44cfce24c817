import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer, Socket } from 'node:net';
import { once } from 'node:events';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { test } from 'node:test';
import { runInventory } from '@oselya/inventory';
import { VALID_RECORD } from '../support/findings.ts';
import { Collector } from '../support/transcript.ts';

async function run(...argv: string[]) {
  const [stdout, stderr] = [new Collector(), new Collector()];
  const status = await runInventory(argv, { stdin: Readable.from([]), stdout, stderr, env: {} });
  assert.ok(status < 2, `${argv.join(' ')}: ${stderr.text}`);
}

test('no command but probe opens a connection', async (t) => {
  const server = createServer((socket) => socket.end()).listen(0, '127.0.0.1');
  t.after(() => server.close());
  await once(server, 'listening');
  const address = server.address();
  assert.ok(typeof address === 'object' && address !== null);
  const { port } = address;
  const folder = await mkdtemp(join(tmpdir(), 'inventory-'));
  t.after(() => rm(folder, { recursive: true }));
  const file = join(folder, 'net.json');
  const url = `http://127.0.0.1:${port}/`;
  await writeFile(file, JSON.stringify([{ ...VALID_RECORD, url, docs: `${url}docs` }]));
  const document = join(folder, 'api.json');
  await writeFile(document, JSON.stringify({ info: { title: 'A' }, servers: [{ url }] }));

  // TLS, HTTP and fetch connect by it too.
  const { mock } = t.mock.method(Socket.prototype, 'connect');
  await run('validate', file);
  await run('lint', '--fix', file);
  await run('diff', file, file);
  for (const format of ['html', 'md', 'csv']) await run('report', '--format', format, file);
  for (const target of ['prometheus', 'blackbox', 'hosts']) {
    await run('export', '--target', target, file);
  }
  await run('import', '--from', 'openapi', document);
  assert.equal(mock.callCount(), 0);
  await run('probe', file);
  assert.ok(mock.callCount() > 0);
});
