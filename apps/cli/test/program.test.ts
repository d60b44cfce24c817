import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';

const BIN = join(import.meta.dirname, '../bin/oselya.js');
const folder = mkdtempSync(join(tmpdir(), 'oselya-cli-'));
after(() => rmSync(folder, { recursive: true }));

function oselya(args: string[], env: Record<string, string> = {}) {
  const { status, stdout, stderr } = spawnSync(process.execPath, [BIN, ...args], {
    cwd: folder,
    encoding: 'utf8',
    env: { PATH: process.env['PATH'] ?? '', DATA_DIR: join(folder, 'var'), ...env },
  });
  return { status, stdout, stderr };
}

const commands = ['', 'dev', 'assistant', 'collector', 'worker', 'migrate', 'keygen', 'api-key'];
for (const command of [
  ...commands,
  'api-key create',
  'api-key list',
  'api-key revoke',
  'inventory',
]) {
  test(`oselya ${command} --help says what it does`, () => {
    const { status, stdout, stderr } = oselya([...command.split(' ').filter(Boolean), '--help']);
    assert.equal(status, 0, stderr);
    assert.match(stdout, /usage/i);
  });
}

const wrongUses: [string[], RegExp][] = [
  [['fly'], /unknown command 'fly'/],
  [['keygem'], /keygen/],
  [['migrate', '--fast'], /unknown option '--fast'/],
  [['keygen', 'extra'], /too many arguments/],
  [['api-key', 'create'], /missing required argument 'name'/],
  [['api-key', 'create', 'x', '--scope', 'all'], /Allowed choices are ingest, search, admin/],
  [['api-key', 'create', 'x', '--source', 'No Slug'], /source slug has/],
  [['inventory', 'fly'], /fly/],
];
for (const [args, expected] of wrongUses) {
  test(`oselya ${args.join(' ')} is a wrong use: status 2 and one line`, () => {
    const { status, stdout, stderr } = oselya(args);
    assert.equal(status, 2);
    assert.equal(stdout, '');
    assert.match(stderr, expected);
    assert.equal(stderr.trim().split('\n').length, 1, stderr);
  });
}

test('oselya without a command shows its help as a wrong use', () => {
  const { status, stderr } = oselya([]);
  assert.equal(status, 2);
  assert.match(stderr, /Usage: oselya/);
});

test('keygen prints a new key of 32 bytes each time', () => {
  const keys = [oselya(['keygen']), oselya(['keygen'])].map(({ stdout }) => stdout.trim());
  assert.notEqual(keys[0], keys[1]);
  for (const key of keys) {
    assert.match(key, /^[A-Za-z0-9_-]{43}$/);
    assert.equal(Buffer.from(key, 'base64url').length, 32);
  }
});

test('the assistant refuses to start without an encryption key, with a value error', () => {
  const { status, stderr } = oselya(['assistant']);
  assert.equal(status, 1);
  assert.match(stderr, /Configuration value error/);
  assert.match(stderr, /SVC_AUTH_ENCRYPTION_KEY .*oselya keygen/);
  assert.doesNotMatch(stderr, / at .*\.ts/);
});

test('every bad variable is named, none with its value', () => {
  const env = { COLLECTOR_PORT: 'eighty', MODEL_MODE: 'magic', COLLECTOR_HOST: '0.0.0.0' };
  const { status, stderr } = oselya(['collector'], env);
  assert.equal(status, 1);
  assert.match(stderr, /COLLECTOR_PORT/);
  assert.match(stderr, /MODEL_MODE/);
  assert.doesNotMatch(stderr, /eighty|magic/);
});

test('the collector refuses an open host without a choice about API keys', () => {
  const { status, stderr } = oselya(['collector'], { COLLECTOR_HOST: '0.0.0.0' });
  assert.equal(status, 1);
  assert.match(stderr, /COLLECTOR_AUTH .*required/);
});

const unusable: [name: string, args: string[], env: Record<string, string>, said: RegExp][] = [
  [
    'a data folder that is a file',
    ['migrate'],
    { DATA_DIR: BIN },
    /^oselya: The data folder .*oselya\.js cannot be used .*DATA_DIR/,
  ],
  ['a public address that is none', ['dev'], { BASE_URL: 'here' }, /BASE_URL must be the public/],
  [
    'a damaged store of the identity provider',
    ['dev'],
    { DATA_DIR: join(folder, 'damaged'), DEV_IDP_PORT: '8765' },
    /^oselya: The development identity provider cannot use its store .*delete it/,
  ],
];
mkdirSync(join(folder, 'damaged'));
writeFileSync(join(folder, 'damaged/identity-provider.sqlite'), 'no database '.repeat(100));
for (const [name, args, env, said] of unusable) {
  test(`${name} is told without a stack trace`, () => {
    const { status, stderr } = oselya(args, env);
    assert.equal(status, 1);
    assert.match(stderr, said);
    assert.doesNotMatch(stderr, / at .*\.[jt]s/);
  });
}

for (const role of ['assistant', 'collector']) {
  // An empty variable counts as not set; the level is read by the command too.
  test(`the ${role} runs until it is told to stop`, async () => {
    const child = spawn(process.execPath, [BIN, role], {
      cwd: folder,
      env: {
        DATA_DIR: join(folder, role),
        LOG_LEVEL: '',
        ASSISTANT_PORT: '0',
        COLLECTOR_PORT: '0',
        SVC_AUTH_ENCRYPTION_KEY: oselya(['keygen']).stdout.trim(),
      },
    });
    const closed = once(child, 'close');
    let output = '';
    const listens = Promise.withResolvers<void>();
    child.stdout.on('data', (chunk: Buffer) => {
      output += chunk.toString();
      if (output.includes('Server listening at')) listens.resolve();
    });
    child.stderr.on('data', (chunk: Buffer) => (output += chunk.toString()));
    await Promise.race([listens.promise, closed]);
    child.kill('SIGTERM');
    const [code] = await closed;
    assert.equal(code, 0, output);
    assert.match(output, /"service":"\w+","signal":"SIGTERM","msg":"shutting down"/);
  });
}

test('migrate brings a database up to date, and says so again', () => {
  const first = oselya(['migrate']);
  assert.equal(first.status, 0, first.stderr);
  assert.match(first.stdout, /assistant: applied 0001_/);
  assert.match(first.stdout, /collector: applied 0001_/);
  assert.equal(oselya(['migrate']).stdout, 'assistant: up to date\ncollector: up to date\n');
});

test('an API key is made, listed without itself, and revoked once', () => {
  const made = oselya([
    'api-key',
    'create',
    'scraper',
    '--scope',
    'ingest',
    '--source',
    'lviv-doshka',
  ]);
  assert.equal(made.status, 0, made.stderr);
  const [, key = '', id = ''] = /^(oselya_([0-9a-f]+)_\S+)$/m.exec(made.stdout) ?? [];
  assert.ok(key);
  const listed = oselya(['api-key', 'list']).stdout;
  assert.match(
    listed,
    new RegExp(`^${id}\tscraper\tingest\tlviv-doshka\tactive\tnever used$`, 'm'),
  );
  assert.ok(!listed.includes(key));
  assert.equal(oselya(['api-key', 'revoke', id]).status, 0);
  const again = oselya(['api-key', 'revoke', id]);
  assert.equal(again.status, 1);
  assert.match(again.stderr, /no active key/);
});

test('a .env file is read, and the environment goes before it', () => {
  writeFileSync(join(folder, '.env'), 'COLLECTOR_PORT=from-file\nMODEL_MODE=from-file\n');
  const { stderr } = oselya(['collector'], { MODEL_MODE: 'mock' });
  assert.match(stderr, /COLLECTOR_PORT/);
  assert.doesNotMatch(stderr, /MODEL_MODE/);
});
