import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { test } from 'node:test';
import { ConfigError } from '@oselya/kit';
import fc from 'fast-check';
import { CompactEncrypt, CompactSign, decodeProtectedHeader, UnsecuredJWT } from 'jose';
import { readConfig } from '../../src/config.ts';
import { createTokenVault, UnreadableTokenError } from '../../src/identity/token-vault.ts';
import { text } from '../hostile/generators.ts';

const newKey = () => randomBytes(32).toString('base64url');
const keyText = newKey();
const key = Buffer.from(keyText, 'base64url');
const vault = createTokenVault(keyText, [newKey()]);

type Place = { id: string; userId: string; column: 'access_token_enc' | 'refresh_token_enc' };
const place: Place = { id: 's-1', userId: 'u-1', column: 'access_token_enc' };
const TOKEN = 'an access token';

async function seal(token: string, by = vault): Promise<string> {
  const tokens = { accessToken: token, expiresInSeconds: undefined };
  return (await by.sealTokens(tokens, place)).accessTokenEnc;
}

const open = (stored: string, at: Place = place, by = vault) => by.open(stored, at, at.column);
const sealed = await seal(TOKEN);
const parts = sealed.split('.');
const header: Record<string, unknown> = JSON.parse(
  Buffer.from(parts[0] ?? '', 'base64url').toString(),
);
const encode = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url');

/** Fails unless a text is refused, with the one error that says nothing about it. */
async function refuses(stored: string, at: Place = place): Promise<void> {
  await assert.rejects(open(stored, at), (error: unknown) => {
    assert.ok(error instanceof UnreadableTokenError);
    assert.equal(error.cause, undefined);
    assert.equal(error.message, new UnreadableTokenError().message);
    return true;
  });
}

test('every text opens after it was sealed', () =>
  fc.assert(
    fc.asyncProperty(fc.string({ unit: 'grapheme' }), async (token) => {
      assert.equal(await open(await seal(token)), token);
    }),
  ));

test('the envelope is a JWE that names its key and reveals neither token nor place', async () => {
  const { alg, enc, kid } = decodeProtectedHeader(sealed);
  assert.deepEqual([alg, enc, typeof kid], ['dir', 'A256GCM', 'string']);
  const readable = Buffer.from(parts[0] ?? '', 'base64url').toString() + sealed;
  for (const secret of [TOKEN, 's-1', 'u-1', keyText]) assert.ok(!readable.includes(secret));
  assert.notEqual(await seal(TOKEN), sealed);
});

test('an earlier key opens and never seals', async () => {
  const earlierKey = newKey();
  const old = await seal(TOKEN, createTokenVault(earlierKey));
  const rotated = createTokenVault(keyText, [earlierKey]);
  assert.equal(await open(old, place, rotated), TOKEN);
  assert.ok(rotated.isReadable(old, place, 'access_token_enc'));
  assert.equal(await open(await seal(TOKEN, rotated)), TOKEN);
  await refuses(old);
  assert.ok(!vault.isReadable(old, place, 'access_token_enc'));
  assert.ok(!vault.isReadable(sealed, place, 'refresh_token_enc'));
});

test('a changed byte in any part is noticed', () =>
  fc.assert(
    fc.asyncProperty(
      // The second part, the encrypted key, is empty: the key is used as it is.
      fc.constantFrom(0, 2, 3, 4),
      fc.nat(),
      fc.integer({ min: 1, max: 255 }),
      async (part, at, change) => {
        const bytes = Buffer.from(parts[part] ?? '', 'base64url');
        const index = at % bytes.length;
        bytes[index] = (bytes[index] ?? 0) ^ change;
        await refuses(parts.with(part, bytes.toString('base64url')).join('.'));
      },
    ),
    { numRuns: 300 },
  ));

test('a part of another sealed token fits nowhere', async () => {
  const other = (await seal(TOKEN)).split('.');
  for (const part of [2, 3, 4]) await refuses(parts.with(part, other[part] ?? '').join('.'));
  for (const [one, two] of [
    [0, 2],
    [2, 4],
    [3, 4],
  ] as const) {
    await refuses(
      parts
        .with(one, parts[two] ?? '')
        .with(two, parts[one] ?? '')
        .join('.'),
    );
  }
});

test('a token opens for no other row, user or column', () =>
  fc.assert(
    fc.asyncProperty(
      fc.record({
        id: fc.oneof(fc.constant('s-1'), text),
        userId: fc.oneof(fc.constant('u-1'), text),
        column: fc.constantFrom('access_token_enc' as const, 'refresh_token_enc' as const),
      }),
      async (other) => {
        const isSame = JSON.stringify({ ...place, ...other }) === JSON.stringify(place);
        if (isSame) assert.equal(await open(sealed, other), TOKEN);
        else await refuses(sealed, other);
      },
    ),
    { numRuns: 500 },
  ));

const headers: Record<string, Record<string, unknown>> = {
  'no algorithm': { alg: 'none' },
  'an algorithm of public keys': { alg: 'RSA-OAEP' },
  'an algorithm of passwords': { alg: 'PBES2-HS256+A128KW', p2s: 'AAAA', p2c: 1_000_000_000 },
  'a wrapped key': { alg: 'A256KW' },
  'a key that is agreed': { alg: 'ECDH-ES', epk: {} },
  'another encryption': { enc: 'A128CBC-HS256' },
  'an encryption with a shorter key': { enc: 'A128GCM' },
  'no encryption': { enc: 'none' },
  compression: { zip: 'DEF' },
  'an unknown compression': { zip: 'GZ' },
  'an extension': { crit: ['exp'], exp: 0 },
  'no key': { kid: undefined },
  'an unknown key': { kid: 'AAAAAAAAAAAAAAAA' },
  'a key that is no text': { kid: { length: 16 } },
  'a key of every object': { kid: 'constructor' },
  'a key of its own': { jwk: { kty: 'oct', k: 'AAAA' } },
  'a key elsewhere': { jku: 'http://127.0.0.1:1/keys' },
  'no place': { place: undefined },
  'a list for a place': { place: [header['place']] },
};

for (const [name, other] of Object.entries(headers)) {
  test(`a header with ${name} is refused, before anything else is done with it`, async () => {
    await refuses(parts.with(0, encode({ ...header, ...other })).join('.'));
  });
}

test('what another use of the key made is refused', async () => {
  const encrypt = (changed: Record<string, unknown>) =>
    new CompactEncrypt(Buffer.from(TOKEN)).setProtectedHeader({
      ...header,
      alg: 'dir',
      enc: 'A256GCM',
      ...changed,
    });
  await refuses(await encrypt({ enc: 'A128CBC-HS256' }).encrypt(key));
  await refuses(await encrypt({ alg: 'A256GCMKW' }).encrypt(key));
  await refuses(await encrypt({ alg: 'A256KW' }).encrypt(key));
  await refuses(await encrypt({ zip: 'DEF' }).encrypt(key));
  await refuses(await encrypt({ place: undefined }).encrypt(key));
  await refuses(await encrypt({ kid: 'AAAAAAAAAAAAAAAA' }).encrypt(key));
  const signed = new CompactSign(Buffer.from(TOKEN)).setProtectedHeader({ alg: 'HS256' });
  await refuses(await signed.sign(key));
  await refuses(new UnsecuredJWT({ sub: 'u-1' }).encode());
  await refuses(JSON.stringify({ protected: parts[0], iv: parts[2], ciphertext: parts[3] }));
});

/** 43 digits of url-safe base64, the last of which has no bits left over, with or without padding. */
function isKey(written: string): boolean {
  const digits = written.trim().replace(/=$/, '');
  const bytes = Buffer.from(digits, 'base64url');
  return bytes.length === 32 && bytes.toString('base64url') === digits;
}

const writtenKey = fc
  .tuple(
    fc.oneof(
      fc.uint8Array({ minLength: 32, maxLength: 32 }),
      fc.uint8Array({ minLength: 0, maxLength: 64 }),
    ),
    fc.constantFrom('base64url', 'base64', 'hex'),
    fc.constantFrom('', '=', '==', '===', ' ', '\n', '.', '\u0000'),
    fc.option(fc.tuple(fc.nat(), fc.constantFrom('+', '/', ' ', '=', '~', 'é', 'A', 'B')), {
      freq: 1,
    }),
  )
  .map(([bytes, alphabet, end, change]) => {
    const digits = Buffer.from(bytes).toString(alphabet);
    if (change === null) return digits + end;
    const at = change[0] % (digits.length + 1);
    return digits.slice(0, at) + change[1] + digits.slice(at + 1) + end;
  });

test('the start takes exactly the texts that are keys, and shows none', () => {
  const counted = { taken: 0, refused: 0 };
  fc.assert(
    fc.property(writtenKey, (written) => {
      if (isKey(written)) {
        const config = readConfig({ SVC_AUTH_ENCRYPTION_KEY: written });
        createTokenVault(config.SVC_AUTH_ENCRYPTION_KEY);
        counted.taken += 1;
        return;
      }
      assert.throws(
        () => readConfig({ SVC_AUTH_ENCRYPTION_KEY: written }),
        (error: unknown) => {
          assert.ok(error instanceof ConfigError);
          assert.deepEqual(error.variables, ['SVC_AUTH_ENCRYPTION_KEY']);
          assert.ok(written.length < 20 || !error.message.includes(written));
          return true;
        },
      );
      counted.refused += 1;
    }),
    { numRuns: 1000 },
  );
  assert.ok(counted.taken > 10 && counted.refused > 250, JSON.stringify(counted));
});
