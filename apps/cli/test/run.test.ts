import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { oselya } from './support/oselya.ts';

/** A data folder that no command of these comes as far as to make. */
const UNUSED = join(tmpdir(), `oselya-unused-${process.pid}`);

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
  'chat',
  'backfill-embeddings',
  'reprocess',
  'ingest',
  'evaluate',
  'api-key',
];
for (const command of commands.filter((name) => name !== '')) {
  test(`oselya ${command} --help names its requirements`, async () => {
    assert.match(
      (await oselya([command, '--help'])).stdout,
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
  test(`oselya ${command} --help describes it`, async () => {
    const { status, stdout, stderr } = await oselya([
      ...command.split(' ').filter(Boolean),
      '--help',
    ]);
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
  [['reprocess', '--dry-run', '--source', 'Doshka'], /source slug has lower-case letters/],
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
  [['chat'], /the message is empty: see oselya chat --help/],
  [['chat', ' '], /the message is empty/],
  [['chat', 'x'.repeat(16_001)], /the message is longer than 16000 characters/],
  [['chat', 'x', '--url', 'here'], /--url must be an origin, such as https:/],
  [['chat', 'x', '--url', 'https://a.example/path'], /--url must be an origin/],
  [['chat', 'x', '--session', 's', '--profile', 'p'], /leave out --profile/],
  [['chat', 'x', '--sign-out'], /--sign-out takes no message/],
  [['chat', 'x', '--colour'], /unknown option '--colour'/],
  [
    ['ingest', 'a.csv'],
    /required option '--source <slug>' not specified: see oselya ingest --help/,
  ],
  [['ingest', '--source', 'a'], /missing required argument 'file'/],
  [['ingest', 'a.csv', '--source', 'No Slug'], /source slug has/],
  [['ingest', 'a.txt', '--source', 'a'], /add --format json, jsonl or csv: see oselya ingest/],
  [['ingest', '-', '--source', 'a'], /standard input does not tell the format/],
  [['ingest', '-', '--format', 'csv', '--source', 'a', '--rejected'], /add a path to --rejected/],
  [['ingest', 'a.csv', '--source', 'a', '--map', 'price'], /It is FIELD=COLUMN/],
  [['ingest', 'a.csv', '--source', 'a', '--map', 'x=a'], /no field x: it has external_id, url/],
  [
    ['ingest', 'a.csv', '--source', 'a', '--map', 'price=a', '--map', 'price=b'],
    /The field price is mapped twice/,
  ],
  [['ingest', 'a.csv', '--source', 'a', '--encoding', 'klingon'], /It is a name of an encoding/],
  [['ingest', 'a.csv', '--source', 'a', '--load', 'no name'], /A name has letters/],
  [['ingest', 'a.csv', '--source', 'a', '--load', 'x', '--again'], /cannot be used with option/],
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
  test(`oselya ${args.join(' ')} is wrong use with status 2 and one line`, async () => {
    const { status, stdout, stderr } = await oselya(args);
    assert.equal(status, 2);
    assert.equal(stdout, '');
    assert.match(stderr, expected);
    assert.equal(stderr.trim().split('\n').length, 1, stderr);
  });
}

test('--version prints the version of the package', async () => {
  const manifest: { version: string } = JSON.parse(
    readFileSync(join(import.meta.dirname, '../package.json'), 'utf8'),
  );
  for (const args of [['--version'], ['-V'], ['inventory', '--version']]) {
    const { status, stdout, stderr } = await oselya(args);
    assert.deepEqual([status, stdout, stderr], [0, `${manifest.version}\n`, '']);
  }
});

// Of a disk that is full, where the system has one. More than a buffer holds fails while it goes on, one at the end.
const full = '/dev/full';
for (const records of existsSync(full) ? [1, 200] : []) {
  test(`${records} unwritable rejected records are reported in one line`, async () => {
    const input = `${JSON.stringify({ text: 'x'.repeat(1000) })}\n`.repeat(records);
    const args = ['ingest', '-', '--format', 'jsonl', '--source', 'a', '--dry-run'];
    const { status, stderr } = await oselya([...args, '--rejected', full], {}, input);
    assert.equal(status, 1);
    assert.match(stderr, /^oselya: \/dev\/full cannot be written: .*ENOSPC.*\n$/);
  });
}

test('keygen prints a new key of 32 bytes each time', async () => {
  const keys = (await Promise.all([oselya(['keygen']), oselya(['keygen'])])).map(({ stdout }) =>
    stdout.trim(),
  );
  assert.notEqual(keys[0], keys[1]);
  for (const key of keys) {
    assert.match(key, /^[A-Za-z0-9_-]{43}$/);
    assert.equal(Buffer.from(key, 'base64url').length, 32);
  }
});

test('the assistant does not start without an encryption key', async () => {
  const { status, stderr } = await oselya(['assistant']);
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
  [['chat', 'x'], { BASE_URL: 'h3re', ASSISTANT_PORT: '0' }, ['ASSISTANT_PORT', 'BASE_URL']],
  [
    ['dev'],
    {
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
  test(`oselya ${args.join(' ')} names every bad variable once, none with its value`, async () => {
    const { status, stderr } = await oselya(args, { DATA_DIR: UNUSED, ...env });
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
    assert.equal(existsSync(UNUSED), false);
  });
}

test('search reports the address of a missing collector with advice', async () => {
  // Port 1 is one of those that fetch never asks.
  for (const [variable, value] of [
    ['COLLECTOR_PORT', '1'],
    ['COLLECTOR_URL', 'http://127.0.0.1:1'],
  ] as const) {
    const { status, stdout, stderr } = await oselya(['search', 'дім'], { [variable]: value });
    assert.equal(status, 1);
    assert.equal(stdout, '');
    assert.match(stderr, /^oselya: the collector at http:\/\/127\.0\.0\.1:1 cannot be reached/);
    assert.equal(stderr.trim().split('\n').length, 1);
  }
});

test('the collector does not start on an open host without COLLECTOR_AUTH', async () => {
  const { status, stderr } = await oselya(['collector'], { COLLECTOR_HOST: '0.0.0.0' });
  assert.equal(status, 1);
  assert.match(stderr, /COLLECTOR_AUTH .*required/);
});
