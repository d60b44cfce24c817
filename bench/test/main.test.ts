import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { test } from 'node:test';

const MAIN = fileURLToPath(new URL('../src/main.ts', import.meta.url));

function bench(args: string[], env: Record<string, string> = {}) {
  const { status, stdout, stderr } = spawnSync(process.execPath, [MAIN, ...args], {
    encoding: 'utf8',
    env: { PATH: process.env['PATH'], ...env },
  });
  return { status, stdout, stderr };
}

test('without arguments the command lists the suites', () => {
  const { status, stdout, stderr } = bench([]);
  assert.equal(status, 0);
  assert.equal(stderr, '');
  assert.match(stdout, /^ {2}auth {2}requests of signed-in users/m);
});

test('invalid arguments exit with status 2 and a message of one line', () => {
  for (const args of [['tennis'], ['auth', '--fast'], ['auth', '--seconds', 'five']]) {
    const { status, stdout, stderr } = bench(args);
    assert.equal(status, 2);
    assert.equal(stdout, '');
    assert.match(stderr, /^bench: [^\n]+npm run bench[^\n]+\n$/);
  }
});

test('without a database the message has one line, with advice and without the password', () => {
  const url = 'postgres://oselya:hidden@127.0.0.1:1/oselya';
  const { status, stderr } = bench(['auth', '--smoke'], { DATABASE_URL: url });
  assert.equal(status, 1);
  assert.match(stderr, /^bench: PostgreSQL rejected [^\n]+DATABASE_URL\n$/);
  assert.doesNotMatch(stderr, /hidden/);
});
