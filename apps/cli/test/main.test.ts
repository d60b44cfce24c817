import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import {
  closeSync,
  cpSync,
  mkdirSync,
  openSync,
  rmdirSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { openFolder, runProcess, startProcess, until } from '@oselya/testing';
import { fillDataFolder } from '@oselya/testing/database';
import { BIN, oselya } from './support/oselya.ts';

const folder = await openFolder();
const DATA_DIR = join(folder, 'var');
await fillDataFolder(DATA_DIR);
const firstMigration = await oselya(['migrate'], { DATA_DIR });
// Copies the migrated database, because each migration waits for the disk.
for (const name of ['damaged', 'assistant', 'collector']) {
  cpSync(DATA_DIR, join(folder, name), { recursive: true });
}

const runCommand = (args: string[], env: Record<string, string> = {}) =>
  runProcess([BIN, ...args], { cwd: folder, env: { DATA_DIR, ...env } });

/** Commands with their exit status after a failure. */
const FAILURE_STATUSES: [args: string[], status: number][] = [
  [['keygen'], 1],
  [['inventory', 'validate', 'valid.json'], 2],
];

test('an older Node gets one line of advice and a separate exit status', async () => {
  const oldPreload =
    'Object.defineProperty(process, "versions", {value: {...process.versions, node: "20.19.0"}});' +
    'Object.defineProperty(process, "version", {value: "v20.19.0"});';
  const preload = `data:text/javascript,${encodeURIComponent(oldPreload)}`;
  for (const [args, failureStatus] of FAILURE_STATUSES) {
    const { status, stdout, stderr } = await runProcess(['--import', preload, BIN, ...args]);
    assert.deepEqual([status, stdout], [failureStatus, '']);
    assert.match(
      stderr,
      /^oselya: Node 24\.12 or newer is needed, this is v20\.19\.0: run "npm ci".*\n$/,
    );
  }
});

test('unwritable output is a failure with one line', () => {
  writeFileSync(join(folder, 'valid.json'), '[]');
  // The file descriptor is read-only, so writing fails.
  const readOnlyFile = openSync(join(folder, 'valid.json'), 'r');
  after(() => closeSync(readOnlyFile));
  for (const [args, failureStatus] of FAILURE_STATUSES) {
    const { status, stderr } = spawnSync(process.execPath, [BIN, ...args], {
      cwd: folder,
      encoding: 'utf8',
      stdio: ['ignore', readOnlyFile, 'pipe'],
    });
    assert.match(stderr, /^oselya( inventory validate)?: cannot write to standard output: .*\n$/);
    assert.equal(status, failureStatus);
  }
});

test('a reader that stops early is not a failure', async () => {
  const { child, ended } = startProcess([BIN, 'keygen'], { cwd: folder });
  child.stdout?.destroy();
  const { status, stderr } = await ended;
  assert.deepEqual([status, stderr], [0, '']);
});

test('an unusable data folder or store is reported without a stack trace', async () => {
  writeFileSync(join(folder, 'damaged/identity-provider.sqlite'), 'no database '.repeat(100));
  const cases: [args: string[], env: Record<string, string>, message: RegExp][] = [
    [
      ['migrate'],
      { DATA_DIR: BIN },
      /^oselya: The data folder .*oselya\.js cannot be used .*DATA_DIR/,
    ],
    [
      ['dev'],
      { DATA_DIR: join(folder, 'damaged'), DEV_IDP_PORT: '8765' },
      /^oselya: The development identity provider cannot use its store .*delete it/,
    ],
  ];
  for (const [args, env, message] of cases) {
    const { status, stderr } = await runCommand(args, env);
    assert.equal(status, 1);
    assert.match(stderr, message);
    assert.doesNotMatch(stderr, / at .*\.[jt]s/);
  }
});

for (const role of ['assistant', 'collector']) {
  test(`the ${role} runs until it is stopped`, async () => {
    const { child, output, ended } = startProcess([BIN, role], {
      cwd: folder,
      env: {
        DATA_DIR: join(folder, role),
        LOG_LEVEL: '',
        ASSISTANT_PORT: '0',
        COLLECTOR_PORT: '0',
        SVC_AUTH_ENCRYPTION_KEY: (await oselya(['keygen'])).stdout.trim(),
      },
    });
    await until('the server to listen or to end', () => {
      return output.stdout.includes('Server listening at') || child.exitCode !== null;
    });
    child.kill('SIGTERM');
    const { status, stdout, stderr } = await ended;
    assert.equal(status, 0, stdout + stderr);
    assert.match(stdout, /"service":"\w+","signal":"SIGTERM","msg":"shutting down"/);
  });
}

test('migrate can be repeated, and an API key is created, listed without its secret and revoked', async () => {
  const env = { DATA_DIR };
  const migrations = /assistant: applied 0000_.*\ncollector: applied 0001_/;
  assert.match(firstMigration.stdout, migrations, firstMigration.stderr);
  const secondRun = await oselya(['migrate'], env);
  assert.equal(secondRun.stdout, 'assistant: up to date\ncollector: up to date\n');

  const options = ['--scope', 'ingest', '--source', 'lviv-doshka'];
  const createResult = await oselya(['api-key', 'create', 'scraper', ...options], env);
  // The output suits `KEY=$(oselya api-key create …)`.
  const [, key = '', id = ''] = /^(oselya_([0-9a-f]+)_\S+)\n$/.exec(createResult.stdout) ?? [];
  assert.ok(key, createResult.stderr);
  assert.match(createResult.stderr, new RegExp(`This is key ${id}, shown this once`));
  assert.ok(!createResult.stderr.includes(key));
  const { lines } = await oselya(['api-key', 'list'], env);
  assert.deepEqual(lines, [`${id}\tscraper\tingest\tlviv-doshka\tactive\tnever used`]);
  assert.equal((await oselya(['api-key', 'revoke', id], env)).status, 0);
  const repeatedRevocation = await oselya(['api-key', 'revoke', id], env);
  assert.equal(repeatedRevocation.status, 1);
  assert.match(repeatedRevocation.stderr, /no active key/);
});

test('rates lists the starting rates, loads a file, and rejects an invalid one whole', async () => {
  const env = { DATA_DIR };
  const starting = await oselya(['rates'], env);
  assert.equal(starting.status, 0, starting.stderr);
  assert.match(starting.stdout, /^USD\t[\d.]+\t2026-11-16\tstarting set$/m);
  assert.match(starting.stderr, /approximate: load current ones with {2}npx oselya rates FILE/);
  const csv = 'date,currency,rate\n2026-11-01,USD,44.5\n2026-11-02,USD,"44,6"\n2026-11-02,UAH,1\n';
  const loaded = await oselya(['rates', '-'], env, csv);
  assert.deepEqual([loaded.status, loaded.stdout], [0, 'Loaded 3 rates.\n'], loaded.stderr);
  const path = join(folder, 'rates.json');
  writeFileSync(path, '[{"date": "2026-11-03", "currency": "CHF", "rate": 54.1}]');
  assert.equal((await oselya(['rates', path], env)).stdout, 'Loaded 1 rates.\n');
  const { lines } = await oselya(['rates'], env);
  // A loaded rate precedes a newer one of the starting set.
  assert.ok(lines.includes('USD\t44.6\t2026-11-02\tloaded'), lines.join());
  assert.ok(lines.includes('CHF\t54.1\t2026-11-03\tloaded'), lines.join());
  for (const [row, reason] of [
    ['2026-02-30,USD,1', /standard input, line 3: date must be a day .*Nothing was loaded/],
    ['2026-11-04,dollar,1', /line 3: currency must be a code of ISO 4217/],
    ['2026-11-04,USD,0', /line 3: rate must be a number above 0/],
    ['2026-11-04,UAH,2', /line 3: the rate of UAH is 1/],
    ['2026-11-04,USD', /line 3: has 2 cells/],
  ] as const) {
    const input = `date,currency,rate\n2026-11-04,USD,50\n${row}\n`;
    const { status, stderr } = await oselya(['rates', '-'], env, input);
    assert.equal(status, 1);
    assert.match(stderr, reason);
  }
  assert.deepEqual((await oselya(['rates'], env)).lines, lines);
});

test('a .env folder is ignored, and an unreadable .env is reported', async () => {
  const path = join(folder, '.env');
  mkdirSync(path);
  assert.equal((await runCommand(['keygen'])).status, 0);
  rmdirSync(path);
  // A symbolic link to itself is unreadable.
  symlinkSync('.env', path);
  for (const [args, failureStatus] of FAILURE_STATUSES) {
    const { status, stdout, stderr } = await runCommand(args);
    assert.deepEqual([status, stdout], [failureStatus, '']);
    assert.match(stderr, /^oselya: \.env cannot be read \(.*ELOOP.*\): .*\n$/);
  }
  rmSync(path);
});

test('the environment overrides a .env file', async () => {
  writeFileSync(join(folder, '.env'), 'COLLECTOR_PORT=from-file\nMODEL_MODE=from-file\n');
  const { stderr } = await runCommand(['collector'], { MODEL_MODE: 'mock' });
  assert.match(stderr, /COLLECTOR_PORT/);
  assert.doesNotMatch(stderr, /MODEL_MODE/);
});
