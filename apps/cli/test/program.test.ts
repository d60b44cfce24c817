import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
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

const commands = [
  '',
  'dev',
  'assistant',
  'collector',
  'worker',
  'migrate',
  'assign-legacy',
  'keygen',
  'search',
  'backfill-embeddings',
  'reprocess',
  'ingest',
  'evaluate',
  'api-key',
];
for (const command of commands.filter((name) => name !== '')) {
  test(`oselya ${command} --help says what it needs`, () => {
    assert.match(
      oselya([command, '--help']).stdout,
      /^It needs .*\n.*\n.*docs\/configuration\.md/m,
    );
  });
}
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
  [[], /^oselya: a command is missing: see oselya --help$/m],
  [['api-key'], /^oselya: a command is missing: see oselya api-key --help$/m],
  [['fly'], /^oselya: unknown command 'fly': see oselya --help$/m],
  [['fly', '--help'], /^oselya: unknown command 'fly': see oselya --help$/m],
  [['api-key', 'fly', '--help'], /^oselya: unknown command 'fly': see oselya api-key --help$/m],
  [['f\u001B[2J\nly'], /unknown command 'f\[2J ly'/],
  [['keygem'], /keygen/],
  [['start'], /^oselya: unknown command 'start' \(Did you mean dev\?\): see oselya --help$/m],
  [['start', '--port', '1', '--help'], /Did you mean dev\?/],
  [['migrate', '--fast'], /unknown option '--fast'/],
  [['keygen', 'extra'], /too many arguments/],
  [['assign-legacy'], /missing required argument 'user-id': see oselya assign-legacy --help/],
  [['assign-legacy', 'u-1', 'u-2'], /too many arguments/],
  [['reprocess', '--dry-run', '--yes'], /choose one: see oselya reprocess --help/],
  [['reprocess'], /there is no terminal to ask at: add --yes, or --dry-run/],
  [['reprocess', '--limit', '0'], /It is a whole number from 1/],
  [['backfill-embeddings', 'extra'], /too many arguments/],
  [['assign-legacy', ''], /the id must not be empty: see oselya assign-legacy --help/],
  [['assign-legacy', ' \t', '--dry-run'], /the id must not be empty/],
  [['assign-legacy', 'u-1', '--dry'], /unknown option '--dry'/],
  [['api-key', 'create'], /missing required argument 'name'/],
  [['api-key', 'create', 'x', '--scope', 'all'], /Allowed choices are ingest, search, admin/],
  [['api-key', 'create', 'x', '--source', 'No Slug'], /source slug has/],
  [['search'], /missing required argument 'words': see oselya search --help/],
  [['search', 'x', '--limit', '0'], /whole number, 1 to 100/],
  [['search', 'x', '--limit', '101'], /whole number, 1 to 100/],
  [
    ['ingest', 'a.csv'],
    /required option '--source <slug>' not specified: see oselya ingest --help/,
  ],
  [['ingest', '--source', 'a'], /missing required argument 'file'/],
  [['ingest', 'a.csv', '--source', 'No Slug'], /source slug has/],
  [['ingest', 'a.txt', '--source', 'a'], /add --format jsonl or --format csv: see oselya ingest/],
  [['ingest', '-', '--source', 'a'], /standard input does not tell the format/],
  [['ingest', '-', '--format', 'csv', '--source', 'a', '--rejected'], /add a path to --rejected/],
  [['ingest', 'a.csv', '--source', 'a', '--map', 'price'], /It is FIELD=COLUMN/],
  [['ingest', 'a.csv', '--source', 'a', '--map', 'x=a'], /no field x: it has external_id, url/],
  [
    ['ingest', 'a.csv', '--source', 'a', '--map', 'price=a', '--map', 'price=b'],
    /The field price is mapped twice/,
  ],
  [['ingest', 'a.csv', '--source', 'a', '--encoding', 'klingon'], /It is a name of an encoding/],
  [
    ['ingest', 'a.csv', '--source', 'a', '--delimiter', ';'],
    /Allowed choices are comma, semicolon/,
  ],
  [['evaluate', '--limit', '0'], /It is a whole number from 1/],
  [['evaluate', 'a.jsonl', 'b.jsonl'], /too many arguments/],
  [['inventory', 'fly'], /fly/],
  [['inventory', 'validate', '-x.json'], /-x/],
  [['inventory', 'validate', '--', '-x.json'], /cannot read -x\.json/],
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

test('a file whose name begins with a dash is validated after --', () => {
  writeFileSync(join(folder, '-x.json'), '[]');
  const { status, stderr } = oselya(['inventory', 'validate', '--', '-x.json']);
  assert.equal(status, 0, stderr);
});

test('--version prints the version of the package', () => {
  const manifest: { version: string } = JSON.parse(
    readFileSync(join(import.meta.dirname, '../package.json'), 'utf8'),
  );
  for (const flag of ['--version', '-V']) {
    const { status, stdout, stderr } = oselya([flag]);
    assert.deepEqual([status, stdout, stderr], [0, `${manifest.version}\n`, '']);
  }
});

test('the help does not offer what is no command', () => {
  assert.doesNotMatch(oselya(['--help']).stdout, /^ +start /m);
});

test('an older Node gets one line that says what to do', () => {
  const old =
    'Object.defineProperty(process, "versions", {value: {...process.versions, node: "20.19.0"}});' +
    'Object.defineProperty(process, "version", {value: "v20.19.0"});';
  const preload = `data:text/javascript,${encodeURIComponent(old)}`;
  const { status, stdout, stderr } = spawnSync(
    process.execPath,
    ['--import', preload, BIN, 'keygen'],
    {
      encoding: 'utf8',
    },
  );
  assert.equal(status, 1);
  assert.equal(stdout, '');
  assert.match(stderr, /^oselya: Node 24\.12 or newer is needed, this is v20\.19\.0: run "npm ci"/);
  assert.equal(stderr.trim().split('\n').length, 1);
});

test('a reader that stops early is no failure', async () => {
  const child = spawn(process.execPath, [BIN, 'keygen'], { cwd: folder });
  child.stdout.destroy();
  let errors = '';
  child.stderr.on('data', (chunk: Buffer) => (errors += chunk.toString()));
  const [code] = await once(child, 'close');
  assert.equal(errors, '');
  assert.equal(code, 0);
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

const badVariables: [args: string[], env: Record<string, string>, named: string[]][] = [
  [
    ['collector'],
    { LOG_LEVEL: 'l0ud', COLLECTOR_PORT: 'e1ghty', MODEL_MODE: 'mag1c', COLLECTOR_HOST: '0.0.0.0' },
    ['LOG_LEVEL', 'COLLECTOR_PORT', 'MODEL_MODE', 'COLLECTOR_AUTH'],
  ],
  [
    ['worker'],
    { COLLECTOR_WORKERS: 'm4ny', MODEL_MODE: 'openai' },
    ['COLLECTOR_WORKERS', 'MODEL_BASE_URL', 'MODEL_CHAT', 'MODEL_EMBEDDING'],
  ],
  [
    ['assistant'],
    { LOG_LEVEL: 'l0ud', SVC_AUTH_COOKIE_SAMESITE: 'none' },
    ['LOG_LEVEL', 'SVC_AUTH_ENCRYPTION_KEY', 'SVC_AUTH_COOKIE_SAMESITE'],
  ],
  [
    ['migrate'],
    { DATABASE_URL: 'mysql://us3r@x', EMBEDDING_DIMENSIONS: 'w1de' },
    ['DATABASE_URL', 'EMBEDDING_DIMENSIONS'],
  ],
  [
    ['search', 'x'],
    { COLLECTOR_URL: 'h3re', COLLECTOR_API_KEY: 'a key of m1ne' },
    ['COLLECTOR_URL', 'COLLECTOR_API_KEY'],
  ],
  [
    ['dev'],
    {
      DATA_DIR: join(folder, 'never-made'),
      LOG_LEVEL: 'l0ud',
      ASSISTANT_PORT: 'e1ghty',
      DEV_IDP_PORT: '99999',
      DEV_IDP_ACCESS_TOKEN_SECONDS: '0',
      DEV_IDP_REFRESH_TOKEN_SECONDS: 'f0rever',
      COLLECTOR_PORT: 'n1nety',
      IDP_TIMEOUT_MS: 's00n',
      SVC_AUTH_COOKIE_SAMESITE: 'none',
      MODEL_MODE: 'openai',
      MODEL_CHAT: 'llama',
      MODEL_EMBEDDING: 'llama',
      COLLECTOR_HOST: '0.0.0.0',
    },
    [
      'LOG_LEVEL',
      'ASSISTANT_PORT',
      'COLLECTOR_PORT',
      'DEV_IDP_PORT',
      'DEV_IDP_ACCESS_TOKEN_SECONDS',
      'DEV_IDP_REFRESH_TOKEN_SECONDS',
      'IDP_TIMEOUT_MS',
      'SVC_AUTH_COOKIE_SAMESITE',
      'MODEL_BASE_URL',
      'COLLECTOR_AUTH',
    ],
  ],
];
for (const [args, env, named] of badVariables) {
  test(`oselya ${args.join(' ')} names every bad variable once, none with its value`, () => {
    const { status, stderr } = oselya(args, env);
    assert.equal(status, 1);
    const lines = stderr.trim().split('\n');
    assert.equal(lines.shift(), 'oselya: Configuration value error:');
    assert.deepEqual(
      lines.map((line) => line.trim().split(' ')[0]),
      named,
    );
    for (const value of Object.values(env)) {
      // Values with a digit in a word are found nowhere else.
      if (/[a-z]\d|\d[a-z]/.test(value)) assert.ok(!stderr.includes(value), stderr);
    }
    assert.equal(existsSync(join(folder, 'never-made')), false);
  });
}

test('search says where it looked for a collector, and what to do', () => {
  // Port 1 is one of those that fetch never asks.
  for (const [variable, value] of [
    ['COLLECTOR_PORT', '1'],
    ['COLLECTOR_URL', 'http://127.0.0.1:1'],
  ] as const) {
    const { status, stdout, stderr } = oselya(['search', 'дім'], { [variable]: value });
    assert.equal(status, 1);
    assert.equal(stdout, '');
    assert.match(stderr, /^oselya: the collector at http:\/\/127\.0\.0\.1:1 cannot be reached/);
    assert.equal(stderr.trim().split('\n').length, 1);
  }
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
