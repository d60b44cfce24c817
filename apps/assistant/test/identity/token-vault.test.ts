import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { test } from 'node:test';
import fc from 'fast-check';
import { decodeProtectedHeader } from 'jose';
import {
  createTokenVault,
  type TokenPlace,
  UnreadableTokenError,
} from '../../src/identity/token-vault.ts';

const key = randomBytes(32);
const earlierKey = randomBytes(32);
const vault = createTokenVault(key);
const place: TokenPlace = { sessionId: 's-1', userId: 'u-1', column: 'access_token_enc' };
const sealed = await vault.seal('secret token', place);

const unreadable = (work: Promise<string>) => assert.rejects(work, UnreadableTokenError);

test('what was sealed opens, whatever it was', async () => {
  await fc.assert(
    fc.asyncProperty(fc.string({ unit: 'grapheme' }), async (token) => {
      assert.equal(await vault.open(await vault.seal(token, place), place), token);
    }),
  );
});

test('the envelope is a JWE that names its key and shows neither token nor place', async () => {
  const header = decodeProtectedHeader(sealed);
  assert.deepEqual([header.alg, header['enc'], typeof header.kid], ['dir', 'A256GCM', 'string']);
  const readable = Buffer.from(sealed.split('.')[0] ?? '', 'base64url').toString() + sealed;
  for (const secret of ['secret token', 's-1', 'u-1', key.toString('base64url')]) {
    assert.ok(!readable.includes(secret));
  }
  assert.notEqual(await vault.seal('secret token', place), sealed);
});

test('a token opens at its own place only', async () => {
  const others: TokenPlace[] = [
    { ...place, sessionId: 's-2' },
    { ...place, userId: 'u-2' },
    { ...place, column: 'refresh_token_enc' },
  ];
  for (const other of others) await unreadable(vault.open(sealed, other));
});

test('a change of any character is noticed', async () => {
  for (let at = 0; at < sealed.length; at += 1) {
    const changed = `${sealed.slice(0, at)}${sealed[at] === 'A' ? 'B' : 'A'}${sealed.slice(at + 1)}`;
    // The last digit of a part can carry bits that mean nothing; then the token is the same.
    const opened = await vault.open(changed, place).catch((error: unknown) => error);
    assert.ok(opened === 'secret token' || opened instanceof UnreadableTokenError);
    if (opened === 'secret token') assert.match(sealed.slice(at + 1, at + 2), /^[.]?$/);
  }
  for (const text of ['', 'token', '....', sealed.slice(0, -1), `${sealed}.`]) {
    await unreadable(vault.open(text, place));
  }
});

test('another key does not open it', () =>
  unreadable(createTokenVault(randomBytes(32)).open(sealed, place)));

test('an earlier key opens and never seals', async () => {
  const old = await createTokenVault(earlierKey).seal('old token', place);
  const rotated = createTokenVault(key, [earlierKey]);
  assert.equal(await rotated.open(old, place), 'old token');
  assert.equal(await vault.open(await rotated.seal('new token', place), place), 'new token');
  await unreadable(vault.open(old, place));
});

test('an unsealed token, or one sealed in another way, is not accepted', async () => {
  const none = Buffer.from('{"alg":"none"}').toString('base64url');
  await unreadable(vault.open(`${none}..AAAA.AAAA.AAAA`, place));
});
