import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import {
  closeSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  rmdirSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { fillDataFolder } from '@oselya/testing/database';
import { oselya } from './support/oselya.ts';

const BIN = join(import.meta.dirname, '../bin/oselya.js');
const folder = mkdtempSync(join(tmpdir(), 'oselya-cli-'));
after(() => rmSync(folder, { recursive: true }));
for (const name of ['var', 'damaged', 'assistant', 'collector']) {
  await fillDataFolder(join(folder, name));
}

function runProcess(args: string[], env: Record<string, string> = {}) {
  const { status, stdout, stderr } = spawnSync(process.execPath, [BIN, ...args], {
    cwd: folder,
    encoding: 'utf8',
    env: { PATH: process.env['PATH'] ?? '', DATA_DIR: join(folder, 'var'), ...env },
  });
  return { status, stdout, stderr };
}

test('an older Node gets one line of advice and a separate exit status', () => {
  const oldPreload =
    'Object.defineProperty(process, "versions", {value: {...process.versions, node: "20.19.0"}});' +
    'Object.defineProperty(process, "version", {value: "v20.19.0"});';
  const preload = `data:text/javascript,${encodeURIComponent(oldPreload)}`;
  for (const [args, failureStatus] of [
    [['keygen'], 1],
    [['inventory', 'validate', 'valid.json'], 2],
  ] as const) {
    const { status, stdout, stderr } = spawnSync(
      process.execPath,
      ['--import', preload, BIN, ...args],
      { encoding: 'utf8' },
    );
    assert.equal(status, failureStatus);
    assert.equal(stdout, '');
    assert.match(
      stderr,
      /^oselya: Node 24\.12 or newer is needed, this is v20\.19\.0: run "npm ci"/,
    );
    assert.equal(stderr.trim().split('\n').length, 1);
  }
});

test('unwritable output is a failure with one line', () => {
  writeFileSync(join(folder, 'valid.json'), '[]');
  // The file descriptor is read-only, so writing fails.
  const readOnlyFile = openSync(join(folder, 'valid.json'), 'r');
  after(() => closeSync(readOnlyFile));
  for (const [args, status] of [
    [['keygen'], 1],
    [['inventory', 'validate', 'valid.json'], 2],
  ] as const) {
    const result = spawnSync(process.execPath, [BIN, ...args], {
      cwd: folder,
      encoding: 'utf8',
      stdio: ['ignore', readOnlyFile, 'pipe'],
    });
    assert.match(
      result.stderr,
      /^oselya( inventory validate)?: cannot write to standard output: .*\n$/,
    );
    assert.equal(result.status, status);
  }
});

test('a reader that stops early is not a failure', async () => {
  const child = spawn(process.execPath, [BIN, 'keygen'], { cwd: folder });
  child.stdout.destroy();
  let errors = '';
  child.stderr.on('data', (chunk: Buffer) => (errors += chunk.toString()));
  const [code] = await once(child, 'close');
  assert.equal(errors, '');
  assert.equal(code, 0);
});

const unusableConfigurations: [
  name: string,
  args: string[],
  env: Record<string, string>,
  expectedMessage: RegExp,
][] = [
  [
    'a data folder that is a file',
    ['migrate'],
    { DATA_DIR: BIN },
    /^oselya: The data folder .*oselya\.js cannot be used .*DATA_DIR/,
  ],
  [
    'a damaged store of the identity provider',
    ['dev'],
    { DATA_DIR: join(folder, 'damaged'), DEV_IDP_PORT: '8765' },
    /^oselya: The development identity provider cannot use its store .*delete it/,
  ],
];
writeFileSync(join(folder, 'damaged/identity-provider.sqlite'), 'no database '.repeat(100));
for (const [name, args, env, expectedMessage] of unusableConfigurations) {
  test(`${name} is reported without a stack trace`, () => {
    const { status, stderr } = runProcess(args, env);
    assert.equal(status, 1);
    assert.match(stderr, expectedMessage);
    assert.doesNotMatch(stderr, / at .*\.[jt]s/);
  });
}

for (const role of ['assistant', 'collector']) {
  test(`the ${role} runs until it is stopped`, async () => {
    const child = spawn(process.execPath, [BIN, role], {
      cwd: folder,
      env: {
        DATA_DIR: join(folder, role),
        LOG_LEVEL: '',
        ASSISTANT_PORT: '0',
        COLLECTOR_PORT: '0',
        SVC_AUTH_ENCRYPTION_KEY: runProcess(['keygen']).stdout.trim(),
      },
    });
    const closeEvent = once(child, 'close');
    let output = '';
    const listens = Promise.withResolvers<void>();
    child.stdout.on('data', (chunk: Buffer) => {
      output += chunk.toString();
      if (output.includes('Server listening at')) listens.resolve();
    });
    child.stderr.on('data', (chunk: Buffer) => (output += chunk.toString()));
    await Promise.race([listens.promise, closeEvent]);
    child.kill('SIGTERM');
    const [code] = await closeEvent;
    assert.equal(code, 0, output);
    assert.match(output, /"service":"\w+","signal":"SIGTERM","msg":"shutting down"/);
  });
}

test('migrate can be repeated, and an API key is created, listed without its secret and revoked', async () => {
  const env = { DATA_DIR: join(folder, 'var') };
  const firstRun = await oselya(['migrate'], env);
  assert.match(
    firstRun.stdout,
    /assistant: applied 0000_.*\ncollector: applied 0001_/,
    firstRun.stderr,
  );
  const secondRun = await oselya(['migrate'], env);
  assert.equal(secondRun.stdout, 'assistant: up to date\ncollector: up to date\n');

  const options = ['--scope', 'ingest', '--source', 'lviv-doshka'];
  const created = await oselya(['api-key', 'create', 'scraper', ...options], env);
  // The output suits `KEY=$(oselya api-key create …)`.
  const [, key = '', id = ''] = /^(oselya_([0-9a-f]+)_\S+)\n$/.exec(created.stdout) ?? [];
  assert.ok(key, created.stderr);
  assert.match(created.stderr, new RegExp(`This is key ${id}, shown this once`));
  assert.ok(!created.stderr.includes(key));
  const { lines } = await oselya(['api-key', 'list'], env);
  assert.deepEqual(lines, [`${id}\tscraper\tingest\tlviv-doshka\tactive\tnever used`]);
  assert.equal((await oselya(['api-key', 'revoke', id], env)).status, 0);
  const repeatedRevocation = await oselya(['api-key', 'revoke', id], env);
  assert.equal(repeatedRevocation.status, 1);
  assert.match(repeatedRevocation.stderr, /no active key/);
});

test('a .env folder is ignored, and an unreadable .env is reported', () => {
  const env = join(folder, '.env');
  mkdirSync(env);
  assert.equal(runProcess(['keygen']).status, 0);
  rmdirSync(env);
  // A symbolic link to itself is unreadable.
  symlinkSync('.env', env);
  for (const [args, failureStatus] of [
    [['keygen'], 1],
    [['inventory', 'validate', 'valid.json'], 2],
  ] as const) {
    const { status, stdout, stderr } = runProcess([...args]);
    assert.equal(status, failureStatus);
    assert.equal(stdout, '');
    assert.match(stderr, /^oselya: \.env cannot be read \(.*ELOOP.*\): .*\n$/);
  }
  rmSync(env);
});

test('the environment overrides a .env file', () => {
  writeFileSync(join(folder, '.env'), 'COLLECTOR_PORT=from-file\nMODEL_MODE=from-file\n');
  const { stderr } = runProcess(['collector'], { MODEL_MODE: 'mock' });
  assert.match(stderr, /COLLECTOR_PORT/);
  assert.doesNotMatch(stderr, /MODEL_MODE/);
});
