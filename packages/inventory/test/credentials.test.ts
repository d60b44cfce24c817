import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import fc from 'fast-check';
import {
  credentialIn,
  maskCredentials,
  maskId,
  maskRecord,
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
    ['registry.example/u:p@a.example/x', 'registry.example/***@a.example/x'],
    ['u:p@a.example:5432', '***@a.example:5432'],
    ['u:p@ss@tcp(a.example:3306)/db', '***@tcp(a.example:3306)/db'],
    ["https://u:p'ss`x@a.example/", 'https://***@a.example/'],
    ['https://a/?token=SECRET&next=https://v:q@i/', 'https://a/?token=***&next=https://***@i/'],
    ['https://a/?token=SECRET,https://u:p@b/', 'https://a/?token=***'],
    ["https://a/?token=ab'cd", 'https://a/?token=***'],
    ['https://a/r?url=https%3A%2F%2Fu%3Apw%40h%2F&x=1', 'https://a/r?url=***&x=1'],
    [String.raw`https://u:p\u0040a/`, String.raw`https://***\u0040a/`],
    [String.raw`https://u\u003ap@a/`, 'https://***@a/'],
    [String.raw`https:\u002f\u002Fu:p@a/`, String.raw`https:\u002f\u002F***@a/`],
    [String.raw`/x?token\u003dabc`, String.raw`/x?token\u003d***`],
    ['https://a/?jsessionid=1&otp=2&session=3', 'https://a/?jsessionid=***&otp=***&session=***'],
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
    'https://[::1]/@scope/x',
    'https://a.example:80,https://b.example/@x',
    'olena@example.org',
    'mailto:olena@example.org',
    'git@github.com:oselya/oselya.git',
    'nginx:1.27@sha256:0f3c',
    '{"a":1,"token":2}',
    'a = b & c = d @ 5',
    'Contact:olena@example.org',
    'On call:olena@x,pager:b@x',
    'npm:lodash@4.17.21',
    'ssh:root@web1',
    '10:30@office',
    'urn:uuid:a@b',
    'https://a/?max_tokens=5&tokenizer=gpt&secretary=x&passwordless=1&keyboard=us&author=b',
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

// Time that grew with the square would be many minutes.
test('a large text of nothing but signs is masked in time', { timeout: 60_000 }, async () => {
  for (const part of ['@', 'a:', '://', '?a=', '?a=%20', ',u:p@h:1x', '&token=', ' //']) {
    assert.ok(maskCredentials(part.repeat(500_000 / part.length)).length > 0);
    // The test's time is looked at in between only.
    await setImmediate();
  }
});

test('a password and a secret parameter are both masked, whichever stands first', () => {
  const secret = fc.stringMatching(/^\w{1,9}$/).map((text) => `Q${text}Q`);
  fc.assert(
    fc.property(secret, secret, fc.constantFrom('&next=', ',', '&x=1,'), (one, two, between) => {
      for (const text of [
        `https://h/?token=${one}${between}https://u:${two}@i/`,
        `https://u:${two}@i/?token=${one}${between}`,
      ]) {
        const shown = maskCredentials(text);
        assert.ok(!shown.includes(one) && !shown.includes(two), shown);
      }
    }),
  );
});

test('an id stays what it is, unless it is an address with a password', () => {
  for (const id of ['ssh:root@web1', 'ssh:git@web1:22', 'olena@x/y']) assert.equal(maskId(id), id);
  assert.equal(maskId('https://u:p@a/'), 'https://***@a/');
  assert.deepEqual(maskRecord({ id: 'ssh:git@web1:22', notes: 'u:p@a:22' }), {
    id: 'ssh:git@web1:22',
    notes: '***@a:22',
  });
  const url = 'https://u:p "s@a/';
  assert.deepEqual(maskRecord({ id: '1', url }), { id: '1', url: 'https://***@a/' });
});

test('addresses for machines have no credentials at all', () => {
  assert.equal(withoutCredentials(' https://u:p@a/x?token=1&y=2#z '), 'https://a/x?y=2#z');
  assert.equal(withoutCredentials('https://a/x?token=1'), 'https://a/x');
  assert.equal(withoutCredentials('https://a/x?a=%20&b'), 'https://a/x?a=%20&b');
  assert.equal(withoutCredentials('//u:p@a/'), '//a/');
  assert.equal(withoutCredentials('https://u:p s"s@a/'), 'https://a/');
  assert.equal(
    withoutCredentials('https://u:p@a/?next=https://v:q@i/'),
    'https://a/?next=https://i/',
  );
  assert.equal(withoutCredentials('https://a/?token=1&key=2&y=3'), 'https://a/?y=3');
  assert.equal(withoutCredentials('https://a/x;token=1'), 'https://a/x');
  assert.equal(withoutCredentials('https://a/x?token=1#z'), 'https://a/x#z');
  assert.equal(withoutCredentials('https://a/m;token=S?a=1;api_key=S'), 'https://a/m');
  assert.equal(withoutCredentials('https://a/?max_tokens=5'), 'https://a/?max_tokens=5');
});

test('what an address holds is told by its kind', () => {
  assert.equal(credentialIn('https://u:p@a/'), 'a password');
  assert.equal(credentialIn('https://u@a/'), 'a user name');
  assert.equal(credentialIn('https://a/?api_key=1'), 'a secret in its query');
  assert.equal(credentialIn('https://a/#id_token=1'), 'a secret in its query');
  assert.equal(
    credentialIn('https://a/r?url=https%3A%2F%2Fu%3Apw%40h%2F'),
    'a secret in its query',
  );
  assert.equal(credentialIn('https://a/?next=https://u:p@b/'), 'a password');
  assert.equal(credentialIn('https://a/?api_key='), null);
  assert.equal(credentialIn('https://a/?max_tokens=5&tokenizer=gpt'), null);
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
  assert.deepEqual(maskValue({ 'https://u:p@b': 1, 'https://v:q@b': 2 }), {
    'https://***@b': 1,
    'https://***@b (2)': 2,
  });
});
