import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { after, test } from 'node:test';
import { runInventory } from '@oselya/inventory';
import { VALID_RECORD } from '../support/findings.ts';
import { listen, secure } from '../support/servers.ts';
import { Collector } from '../support/transcript.ts';

const folder = await mkdtemp(join(tmpdir(), 'inventory-probe-'));
after(() => rm(folder, { recursive: true }));

const { port, ca } = await secure();
const closing = await listen(createServer((socket) => socket.destroy()));
const pem = join(folder, 'ca.pem');
await writeFile(pem, ca);

const RECORDS = [
  { ...VALID_RECORD, id: 'good', exposure: 'local', url: `https://localhost:${port}/` },
  { ...VALID_RECORD, id: 'closing', exposure: 'local', url: `https://localhost:${closing}/` },
  { ...VALID_RECORD, id: 'nowhere' },
];

/** One by one, since each is told as soon as it is known. */
async function probe(...args: string[]) {
  const stdout = new Collector();
  const stderr = new Collector();
  const stdin = Readable.from([Buffer.from(JSON.stringify(RECORDS))]);
  const status = await runInventory(['probe', '--concurrency', '1', ...args, '-'], {
    stdin,
    stdout,
    stderr,
    env: {},
  });
  return { status, lines: stdout.text.trimEnd().split('\n'), stderr: stderr.text };
}

test('it tells of each endpoint on a line, and counts them', async () => {
  const { status, lines, stderr } = await probe('--ca', pem);
  assert.equal(stderr, '');
  assert.equal(status, 1);
  assert.match(
    lines[0] ?? '',
    /^ok +"good" localhost:\d+: certificate to \d{4}-\d\d-\d\d; HTTP 200$/,
  );
  assert.match(lines[1] ?? '', /^problem "closing" localhost:\d+: .+ \[probe\/silent\]$/);
  assert.equal(lines[2], 'skipped "nowhere": the record says nowhere to connect to');
  assert.equal(lines[3], '3 endpoints, 1 with problems, 1 not probed');
});

test('a certificate that nobody was told to trust is a problem', async () => {
  const { status, lines } = await probe();
  assert.equal(status, 1);
  assert.match(lines[0] ?? '', /^problem "good" .+ \[probe\/certificate-untrusted\]/);
});

test('only what is selected is asked, and JSON has what was found', async () => {
  const { status, lines } = await probe('--format', 'json', '--exposure', 'private');
  assert.equal(status, 0);
  const found: { id: string; isReachable: boolean | null }[] = JSON.parse(lines.join('\n'));
  assert.deepEqual(
    found.map(({ id, isReachable }) => [id, isReachable]),
    [['nowhere', null]],
  );
  const none = await probe('--type', 'metrics');
  assert.deepEqual(none.lines, ['0 endpoints, 0 with problems']);
});
