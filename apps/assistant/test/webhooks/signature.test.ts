import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { test } from 'node:test';
import fc from 'fast-check';
import { parseEvent } from '../../src/webhooks/events.ts';
import { createVerifier } from '../../src/webhooks/signature.ts';
import { hmac, SECRET, standardHeaders } from './signing.ts';

const NOW = new Date('2026-11-21T08:30:00.900Z');
const BODY = '{"event":"user.blocked","user_id":"u-1"}';
const HMAC = { form: 'hmac', deliveryId: null };
const STANDARD = { form: 'standard', deliveryId: 'msg_1' };
const WRONG = { rejection: 'signature_wrong' };

type Headers = Record<string, string | string[] | undefined>;

function verify(
  headers: Headers,
  { body = BODY, secret = SECRET, signatureHeader = 'X-Webhook-Signature' } = {},
) {
  const verifier = createVerifier({ secret, signatureHeader, now: () => NOW.getTime() });
  return verifier(headers, Buffer.from(body));
}

const bodyAlone = (value: string | string[]) => ({ 'x-webhook-signature': value });
const signedBy = (key: Buffer) => standardHeaders(BODY, { id: 'msg_1', at: NOW, key });

const hex = hmac(BODY).toString('hex');
const base64 = hmac(BODY).toString('base64');
const base64url = hmac(BODY).toString('base64url');
const signed = signedBy(Buffer.from(SECRET));
const [, v1 = ''] = signed['webhook-signature'].split(',');
const otherKey = hmac('other').toString('base64');

test('An HMAC of the body is verified in hex and base64', () => {
  const encoded = [hex, hex.toUpperCase(), base64, base64.replace('=', ''), base64url];
  for (const value of encoded.flatMap((text) => [text, `sha256=${text}`, `SHA256=${text}`])) {
    assert.deepEqual(verify(bodyAlone(value)), HMAC, value);
    assert.deepEqual(verify(bodyAlone(value), { body: `${BODY} ` }), WRONG, value);
  }
});

for (const [name, value] of [
  ['an empty text', ''],
  ['a prefix alone', 'sha256='],
  ['another algorithm', `sha512=${hex}`],
  ['two prefixes', `sha256=sha256=${hex}`],
  ['hex that is too short', hex.slice(2)],
  ['base64 that is too short', base64.slice(4)],
  ['base64 with too much padding', `${base64}=`],
  ['letters that are not ASCII', 'ї'.repeat(64)],
  ['the header twice', `${hex}, ${hex}`],
  ['a list', [hex]],
] as const) {
  test(`${name} is a malformed signature`, () => {
    assert.deepEqual(verify(bodyAlone(value as string)), { rejection: 'signature_malformed' });
  });
}

test('A delivery without a signature is rejected, as is any delivery without a secret', () => {
  assert.deepEqual(verify({}), { rejection: 'signature_missing' });
  for (const headers of [bodyAlone(hmac(BODY, '').toString('hex')), bodyAlone(hex), signed]) {
    assert.deepEqual(verify(headers, { secret: '' }), { rejection: 'secret_not_set' });
  }
});

test('The header of the HMAC has the configured name, even a name of Standard Webhooks', () => {
  const signatureHeader = 'X-Hub-Signature-256';
  const headers = { 'x-hub-signature-256': `sha256=${hex}` };
  assert.deepEqual(verify(headers, { signatureHeader }), HMAC);
  assert.deepEqual(verify(bodyAlone(hex), { signatureHeader }), { rejection: 'signature_missing' });
  const shared = { signatureHeader: 'webhook-signature' };
  assert.deepEqual(verify({ 'webhook-signature': hex }, shared), HMAC);
  assert.deepEqual(verify(signed, shared), STANDARD);
});

test('One valid signature of version 1 in the list suffices', () => {
  for (const signatures of [
    `v1,${v1}`,
    `v1,${v1.replace('=', '')}`,
    `v1,${otherKey} v1,${v1}`,
    `v1a,c2ln v2,${v1} v1,${v1} v1,c2ln`,
  ]) {
    assert.deepEqual(verify({ ...signed, 'webhook-signature': signatures }), STANDARD, signatures);
  }
});

for (const [name, headers, rejection] of [
  ['a missing id', { 'webhook-id': undefined }, 'signature_missing'],
  ['a missing timestamp', { 'webhook-timestamp': undefined }, 'signature_missing'],
  ['a missing signature', { 'webhook-signature': undefined }, 'signature_missing'],
  ['another id', { 'webhook-id': 'msg_2' }, 'signature_wrong'],
  ['an empty id', { 'webhook-id': '' }, 'signature_malformed'],
  ['an id sent twice', { 'webhook-id': 'msg_1, msg_1' }, 'signature_malformed'],
  ['an id that is too long', { 'webhook-id': 'm'.repeat(256) }, 'signature_malformed'],
  ['an id as a list', { 'webhook-id': ['msg_1'] }, 'signature_malformed'],
  ['another timestamp', { 'webhook-timestamp': '1795249801' }, 'signature_wrong'],
  ['a date as timestamp', { 'webhook-timestamp': '2026-11-21' }, 'signature_malformed'],
  ['a negative timestamp', { 'webhook-timestamp': '-1795249800' }, 'signature_malformed'],
  ['a signature in hex', { 'webhook-signature': `v1,${hex}` }, 'signature_wrong'],
  ['a signature without version', { 'webhook-signature': v1 }, 'signature_malformed'],
  ['signatures of other versions', { 'webhook-signature': `v1a,${v1}` }, 'signature_wrong'],
  ['an empty signature', { 'webhook-signature': 'v1,' }, 'signature_malformed'],
  ['two spaces', { 'webhook-signature': `v1,${v1}  v1,${v1}` }, 'signature_malformed'],
] as const) {
  test(`Standard Webhooks with ${name} is rejected as ${rejection}`, () => {
    assert.deepEqual(verify({ ...signed, ...(headers as Headers) }), { rejection });
  });
}

test('A delivery of Standard Webhooks is accepted within five minutes', () => {
  for (const [seconds, expected] of [
    [-301, { rejection: 'timestamp_out_of_tolerance' }],
    [-300, STANDARD],
    [300, STANDARD],
    [301, { rejection: 'timestamp_out_of_tolerance' }],
  ] as const) {
    const at = new Date(NOW.getTime() + seconds * 1000);
    assert.deepEqual(verify(standardHeaders(BODY, { id: 'msg_1', at })), expected);
  }
});

test('A header of Standard Webhooks takes precedence over an HMAC of the body', () => {
  for (const [name, value] of Object.entries(signed)) {
    const result = verify({ ...bodyAlone(hex), [name]: value });
    assert.deepEqual(result, { rejection: 'signature_missing' }, name);
  }
});

test('A secret with the prefix whsec_ is base64; any other is a text or base64 of 24 bytes', () => {
  const key = randomBytes(24);
  const [long, short] = [Buffer.alloc(32, 0xfb), Buffer.alloc(23, 1)];
  const text = Buffer.from('whsec_no base64');
  for (const [secret, by, expected] of [
    [`whsec_${key.toString('base64')}`, key, STANDARD],
    [`whsec_${key.toString('base64url')}`, key, STANDARD],
    [`whsec_${key.toString('base64')}`, Buffer.from(SECRET), WRONG],
    [long.toString('base64'), long, STANDARD],
    [long.toString('base64'), Buffer.from(long.toString('base64')), STANDARD],
    [short.toString('base64'), short, WRONG],
    [short.toString('base64'), Buffer.from(short.toString('base64')), STANDARD],
    [String(text), text, STANDARD],
  ] as const) {
    assert.deepEqual(verify(signedBy(by), { secret }), expected, secret);
    // The key of the HMAC of the body is always the text.
    const plain = bodyAlone(hmac(BODY, secret).toString('hex'));
    assert.deepEqual(verify(plain, { secret }), HMAC, secret);
  }
});

const nothing = { name: null, userId: null, eventId: null };

test('The members of an event are read, and malformed ones are ignored', () => {
  for (const [text, expected] of [
    ['{"event":"user.blocked","user_id":"u-1"}', { name: 'user.blocked', userId: 'u-1' }],
    ['{"type":"user.blocked","user_id":"u-1"}', { name: 'user.blocked', userId: 'u-1' }],
    ['{"event":"a","type":"b"}', { name: 'a' }],
    ['{"event":"","type":"b"}', { name: 'b' }],
    ['{"event":{"id":1},"type":"b"}', { name: 'b' }],
    ['{"data":{"user_id":"u-1"}}', { userId: 'u-1' }],
    ['{"user_id":"u-1","data":{"user_id":"u-2"}}', { userId: 'u-1' }],
    ['{"user_id":null,"data":{"user_id":7}}', { userId: '7' }],
    ['{"user_id":12345678901234567890}', { userId: '12345678901234567890' }],
    ['{"user_id":4.5}', {}],
    ['{"user_id":true}', {}],
    ['{"user_id":["u-1"]}', {}],
    ['{"user_id":"u\\u0000"}', {}],
    ['{"user_id":"\\ud800"}', {}],
    [`{"user_id":"${'u'.repeat(256)}"}`, {}],
    ['{"event_id":"evt_1"}', { eventId: 'evt_1' }],
    ['{"event_id":17}', { eventId: '17' }],
    ['{"event":"user.\\u0000blocked"}', { name: 'user.\ufffdblocked' }],
    [`{"event":"${'e'.repeat(101)}"}`, { name: 'e'.repeat(100) }],
    ['{"__proto__":{"event":"user.blocked","user_id":"u-1"}}', {}],
    ['\ufeff {"user_id":"u-1"}\n', { userId: 'u-1' }],
  ] as const) {
    assert.deepEqual(parseEvent(Buffer.from(text)), { ...nothing, ...expected }, text);
  }
  const deep = `{"data":${'['.repeat(30_000)}${']'.repeat(30_000)}}`;
  for (const text of ['', '[]', '[{"event":"a"}]', 'null', '"event"', '{', deep]) {
    assert.equal(parseEvent(Buffer.from(text)), undefined);
  }
  assert.equal(parseEvent(Buffer.from([0x7b, 0x22, 0xff, 0x22, 0x3a, 0x31, 0x7d])), undefined);
});

test('Arbitrary headers are rejected, and arbitrary bodies yield storable texts', () => {
  const value = fc.oneof(
    fc.string({ unit: 'binary', maxLength: 100 }),
    fc.constantFrom(hex, base64, `v1,${v1}`, `v1,${v1} v1,${v1}`, 'msg_1'),
    fc.array(fc.string(), { maxLength: 3 }),
  );
  const names = ['x-webhook-signature', ...Object.keys(signed)];
  const headers = fc.dictionary(fc.constantFrom(...names), value);
  const body = fc.oneof(fc.json({ maxDepth: 4 }), fc.string({ unit: 'binary', maxLength: 100 }));
  fc.assert(
    fc.property(headers, body, (given, text) => {
      assert.ok('rejection' in verify(given, { body: `${text}.` }));
      for (const member of Object.values(parseEvent(Buffer.from(text)) ?? {})) {
        assert.ok(member === null || (member !== '' && member.length <= 255));
        assert.ok(member === null || (member.isWellFormed() && !member.includes('\u0000')));
      }
    }),
    { numRuns: 200 },
  );
});
