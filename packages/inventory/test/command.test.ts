import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { mkdir, rename, symlink, writeFile } from 'node:fs/promises';
import { createServer, Socket } from 'node:net';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { type EndpointRecord, RULES, runInventory } from '@oselya/inventory';
import { openFolder } from '@oselya/testing';
import manifest from '../package.json' with { type: 'json' };
import { parseEndpoint } from '../src/address.ts';
import { runInventoryProcess } from '../src/cli.ts';
import {
  Collector,
  formatTranscript,
  parseTranscript,
  replay,
  run,
  VALID_RECORD,
} from './support.ts';

const folder = await openFolder();
const resolvePath = (name: string) => join(folder, name);

const binPath = fileURLToPath(new URL('../src/bin.ts', import.meta.url));

function startCommand(args: string[], flags: string[] = []) {
  const child = spawn(process.execPath, [...flags, binPath, ...args]);
  const closeEvent = once(child, 'close');
  // The command may end before it has read everything.
  child.stdin.on('error', () => {});
  return { child, stderr: text(child.stderr), closeEvent };
}

test('The command ends without an error message when its reader closes the pipe', async () => {
  const { child, stderr, closeEvent } = startCommand(['validate', '-']);
  // The findings exceed the buffer of a pipe, and the input does not end.
  child.stdin.write(`[${'1,'.repeat(200_000)}`);
  await once(child.stdout, 'data');
  child.stdout.destroy();
  assert.deepEqual([await closeEvent, await stderr], [[1, null], '']);
});

test('The option --version prints only the version', async () => {
  const expected = { status: 0, stdout: `${manifest.version}\n`, stderr: '' };
  for (const flag of ['--version', '-V']) assert.deepEqual(await run([flag]), expected);
});

test('Internal errors are reported and end with 2', async () => {
  const [stdout, stderr] = [new Collector(), new Collector()];
  // Standard input of a process never yields strings, so strings cause an internal error.
  const stdin = Readable.from(['[]']) as AsyncIterable<never>;
  const listeners = process.listenerCount('uncaughtException');
  const status = await runInventoryProcess(['report', '-'], { stdin, stdout, stderr, env: {} });
  assert.equal(status, 2);
  assert.match(stderr.text, /^oselya inventory: internal error: TypeError/);
  assert.equal(process.listenerCount('uncaughtException'), listeners);
  const faultyModule = `process.on('newListener', (name) => {
    if (name === 'uncaughtException') setImmediate(() => { throw new Error('boom'); });
  });`;
  const flags = ['--import', `data:text/javascript,${encodeURIComponent(faultyModule)}`];
  const failedCommand = startCommand(['validate', '-'], flags);
  assert.match(await failedCommand.stderr, /^oselya-inventory: internal error: Error: boom/);
  assert.deepEqual(await failedCommand.closeEvent, [2, null]);
});

test('A pattern matches only files, and broken links and invalid names are reported', async () => {
  await writeFile(resolvePath('a.json'), '[]');
  await symlink(resolvePath('circle.json'), resolvePath('circle.json'));
  await symlink(resolvePath('nothing'), resolvePath('gone.json'));
  await mkdir(resolvePath('folder.json'));
  // The pipe has no writer, so a read would block forever.
  execFileSync('mkfifo', [resolvePath('pipe.json')]);
  const { status, stdout, stderr } = await run(['validate', resolvePath('*.json')]);
  assert.equal(stdout, `${resolvePath('a.json')}: 0 records, valid\n`);
  const [loopMessage = '', missingMessage = '', ...remainingLines] = stderr.split('\n');
  assert.match(loopMessage, /circle\.json: its symbolic links form a loop; /);
  assert.match(missingMessage, /gone\.json: there is no/);
  assert.deepEqual([status, remainingLines], [2, ['']]);
  const invalidNameRun = await run(['validate', resolvePath('\u{FFFD}.json')]);
  assert.match(invalidNameRun.stderr, /its name is not UTF-8; rename it\n$/);
});

test('Only the probe command opens connections', async (t) => {
  const server = createServer((socket) => socket.end()).listen(0, '127.0.0.1');
  t.after(() => server.close());
  await once(server, 'listening');
  const address = server.address();
  assert.ok(typeof address === 'object' && address !== null);
  const url = `http://127.0.0.1:${address.port}/`;
  const [file, api] = [resolvePath('net'), resolvePath('api')];
  await writeFile(file, JSON.stringify([{ ...VALID_RECORD, url, docs: `${url}docs` }]));
  await writeFile(api, JSON.stringify({ info: { title: 'A' }, servers: [{ url }] }));
  // TLS, HTTP and fetch also connect with this method.
  const { mock } = t.mock.method(Socket.prototype, 'connect');
  for (const argv of [
    ['validate', file],
    ['lint', '--fix', file],
    ['diff', file, file],
    ...['html', 'md', 'csv'].map((format) => ['report', '--format', format, file]),
    ...['prometheus', 'blackbox', 'hosts'].map((target) => ['export', '--target', target, file]),
    ['import', '--from', 'openapi', api],
  ]) {
    const { status, stderr } = await run(argv);
    assert.ok(status < 2, `${argv.join(' ')}: ${stderr}`);
  }
  assert.equal(mock.callCount(), 0);
  await run(['probe', file]);
  assert.ok(mock.callCount() > 0);
});

test('A file is checked again after each change, however it is written', async () => {
  const file = resolvePath('watched');
  await writeFile(file, '[]');
  const [stdout, stderr] = [new Collector(), new Collector()];
  const abortController = new AbortController();
  const io = { stdin: Readable.from([]), stdout, stderr, env: {}, signal: abortController.signal };
  const watchResult = runInventory(['validate', '--watch', file], io);
  for (const [expectedOutput, write] of [
    ['0 records, valid', () => undefined],
    ['1 record, valid', () => writeFile(file, JSON.stringify([VALID_RECORD]))],
    [
      'must be an object',
      () => writeFile(`${file}.new`, '[5]').then(() => rename(`${file}.new`, file)),
    ],
  ] as const) {
    await write();
    for (let attempt = 0; !stdout.text.includes(expectedOutput); attempt += 1) {
      assert.ok(attempt < 600, `not shown: ${expectedOutput}, but ${stdout.text}`);
      await sleep(100);
    }
  }
  abortController.abort();
  assert.deepEqual([await watchResult, stderr.text], [1, '']);
});

test('An endpoint has the host of its URL as written, and the default port of its protocol', () => {
  for (const [properties, ...expected] of [
    [{ url: 'imaps://mail.example.test' }, 'mail.example.test', 993, 'imaps'],
    [{ url: 'postgres://db.example.test/x' }, 'db.example.test', 5432, 'postgresql'],
    [{ url: 'coap://light' }, 'light', 5683, 'coap'],
    [{ url: 'http://1.2.3/' }, '1.2.3', 80, 'http'],
    [{ url: 'https://u:p@x@0x7f.1:8443/y@z' }, '0x7f.1', 8443, 'https'],
    [{ url: 'https://[2001:DB8:0::7]:1/' }, '[2001:DB8:0::7]', 1, 'https'],
    [{ url: 'https://Оселя.example.test/' }, 'xn--e1amhm6e.example.test', 443, 'https'],
    [{ domain: 'оселя.укр', port: 443 }, 'xn--e1amhm6e.xn--j1amh', 443, ''],
    [{ url: 'gw:80', host: 'gw', port: 8080, protocol: ' Postgres' }, 'gw', 8080, 'postgresql'],
    [{ url: ' ', host: ' ', domain: 'a.test', port: 1 }, 'a.test', 1, ''],
    [{ url: 'unknown://mail.example.test' }],
    [{ url: 'https://{tenant}.example.test/' }],
    [{ url: 'http://ex%61mple.test/' }],
    [{ host: 'оселя укр', port: 443 }],
  ] as [Partial<EndpointRecord>, ...unknown[]][]) {
    const endpoint = parseEndpoint({ ...VALID_RECORD, exposure: 'private', ...properties });
    const actual = endpoint === null ? [] : [endpoint.host, endpoint.port, endpoint.protocol];
    assert.deepEqual(actual, expected, JSON.stringify(properties));
  }
});

const goldenFolder = new URL('golden/', import.meta.url);
const names = readdirSync(goldenFolder, { encoding: 'utf8', recursive: true }).filter((name) =>
  name.endsWith('.txt'),
);

for (const name of names) {
  test(`Transcript ${name}`, async () => {
    const file = new URL(name, goldenFolder);
    const expected = readFileSync(file, 'utf8');
    const actual = formatTranscript(await replay(parseTranscript(expected)));
    // UPDATE_GOLDEN=1 writes the actual transcripts; review the differences.
    if (process.env['UPDATE_GOLDEN'] === '1') writeFileSync(file, actual);
    else assert.equal(actual, expected);
  });
}

test('The transcripts show every rule', () => {
  const transcripts = names.map((name) => readFileSync(new URL(name, goldenFolder), 'utf8'));
  // json.test.ts covers this code, which needs a record of more than 1 MiB.
  const expectedCodes = Object.keys(RULES).filter((code) => code !== 'limit/record-size');
  const missingCodes = expectedCodes.filter(
    (code) => !transcripts.some((transcript) => transcript.includes(` [${code}]`)),
  );
  assert.deepEqual(missingCodes, []);
});
