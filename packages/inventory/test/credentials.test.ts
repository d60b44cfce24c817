import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import {
  credentialIn,
  maskCredentials,
  maskValue,
  withoutCredentials,
} from '../src/credentials.ts';

test('user names, passwords and secrets of addresses are masked, and what is beside them stays', () => {
  const cases: [string, string][] = [
    ['https://user:pw@a.example/x', 'https://***@a.example/x'],
    ['see postgres://u:p@db/x, and ftp://f:g@h', 'see postgres://***@db/x, and ftp://***@h'],
    ['https://token@a.example', 'https://***@a.example'],
    ['https://u:p@ss@a.example/@b', 'https://***@a.example/@b'],
    ['https://u:p/w?#@a.example', 'https://***@a.example'],
    [String.raw`https:\/\/u:p@a.example\/x`, String.raw`https:\/\/***@a.example\/x`],
    ['//u:p@a.example/', '//***@a.example/'],
    ['https:u:p@a.example', 'https:***@a.example'],
    ['registry.example/u:p@a.example', 'registry.example/***@a.example'],
    ['https://a/?x=1&token=abc&y=2#z', 'https://a/?x=1&token=***&y=2#z'],
    ['/x?API-Key=abc', '/x?API-Key=***'],
    ['/x?%74oken=abc', '/x?%74oken=***'],
    ['https://a/#access_token=abc&state=1', 'https://a/#access_token=***&state=1'],
    [String.raw`https://a/?x=1\u0026password=abc`, String.raw`https://a/?x=1\u0026password=***`],
    [
      'https://a/?X-Amz-Signature=abc&X-Amz-Expires=9',
      'https://a/?X-Amz-Signature=***&X-Amz-Expires=9',
    ],
    ['jdbc:sqlserver://db;user=sa;password=a;b', 'jdbc:sqlserver://db;user=sa;password=***'],
    ['"https://u:p@a" and "https://v:q@b"', '"https://***@a" and "https://***@b"'],
  ];
  for (const [written, shown] of cases) assert.equal(maskCredentials(written), shown);
});

test('what is no credential is shown as it is', () => {
  for (const text of [
    'https://a.example:8443/@scope/x',
    'https://a.example/x?page=2&sort=asc',
    'olena@example.org',
    'mailto:olena@example.org',
    'git@github.com:oselya/oselya.git',
    'nginx:1.27@sha256:0f3c',
    '{"a":1,"token":2}',
    'a = b & c = d @ 5',
    '',
  ]) {
    assert.equal(maskCredentials(text), text);
  }
});

test('a password is masked wherever its address stands', () => {
  const word = fc.stringMatching(/^[a-z ,()"'<>]{0,30}$/);
  fc.assert(
    fc.property(word, word, fc.stringMatching(/^[\w:/?@!$.%+-]{1,20}$/), (before, after, part) => {
      const password = `Q${part}Q`;
      const shown = maskCredentials(`${before} https://u:${password}@host/ ${after}`);
      assert.ok(!shown.includes(password), shown);
    }),
  );
});

test('a large text of nothing but signs takes no time that grows with its square', () => {
  for (const part of ['@', ':', 'a:', '://', '?a=', 'u:p@', '&token=', ' //']) {
    const text = part.repeat(500_000 / part.length);
    assert.ok(maskCredentials(text).length > 0);
  }
});

test('addresses for machines have no credentials at all', () => {
  assert.equal(withoutCredentials(' https://u:p@a/x?token=1&y=2#z '), 'https://a/x?y=2#z');
  assert.equal(withoutCredentials('https://a/x?token=1'), 'https://a/x');
  assert.equal(withoutCredentials('https://a/x?a=%20&b'), 'https://a/x?a=%20&b');
  assert.equal(withoutCredentials('//u:p@a/'), '//a/');
});

test('what an address holds is told by its kind', () => {
  assert.equal(credentialIn('https://u:p@a/'), 'a password');
  assert.equal(credentialIn('https://u@a/'), 'a user name');
  assert.equal(credentialIn('https://a/?api_key=1'), 'a secret in its query');
  assert.equal(credentialIn('https://a/#id_token=1'), 'a secret in its query');
  assert.equal(credentialIn('https://a/?api_key='), null);
  assert.equal(credentialIn('https://a/'), null);
});

test('texts within values are masked, names too, and the value is not changed', () => {
  const value = JSON.parse('{"u":["https://u:p@a",1,null],"__proto__":{"https://u:p@b":true}}');
  const before = JSON.stringify(value);
  assert.equal(
    JSON.stringify(maskValue(value)),
    '{"u":["https://***@a",1,null],"__proto__":{"https://***@b":true}}',
  );
  assert.equal(JSON.stringify(value), before);
});
