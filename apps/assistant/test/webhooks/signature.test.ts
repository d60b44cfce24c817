import assert from 'node:assert/strict';
import { createHmac, randomBytes } from 'node:crypto';
import { test } from 'node:test';
import fc from 'fast-check';
import { readEvent } from '../../src/webhooks/events.ts';
import { createVerifier } from '../../src/webhooks/signature.ts';
import { hmac, SECRET, standardHeaders } from './receiver.ts';

const NOW = new Date('2026-11-21T08:30:00.900Z');
const BODY = '{"event":"user.blocked","user_id":"u-1"}';
const signatureHeader = 'X-Webhook-Signature';

const verifier = (secret = SECRET, header = signatureHeader) =>
  createVerifier({ secret, signatureHeader: header, now: () => NOW.getTime() });

type Headers = Record<string, string | string[] | undefined>;
const verify = (headers: Headers, body: string | Buffer = BODY) =>
  verifier()(headers, Buffer.from(body));

const own = (value: string | string[]) => ({ 'x-webhook-signature': value });
const later = (seconds: number) => new Date(NOW.getTime() + seconds * 1000);

const hex = hmac(BODY).toString('hex');
const base64 = hmac(BODY).toString('base64');
const base64url = hmac(BODY).toString('base64url');
const signed = standardHeaders(BODY, { id: 'msg_1', at: NOW });
const [, v1 = ''] = signed['webhook-signature'].split(',');

for (const [name, value] of [
  ['hex', hex],
  ['hex in capitals', hex.toUpperCase()],
  ['base64', base64],
  ['base64 without padding', base64.replace('=', '')],
  ['base64url', base64url],
  ['base64url with padding', `${base64url}=`],
] as const) {
  for (const prefix of ['', 'sha256=', 'SHA256=']) {
    test(`an HMAC of the body as ${prefix}${name} is verified`, () => {
      assert.deepEqual(verify(own(prefix + value)), { form: 'hmac', deliveryId: null });
      assert.deepEqual(verify(own(prefix + value), `${BODY} `), { rejection: 'signature_wrong' });
    });
  }
}

for (const [name, value] of [
  ['an empty text', ''],
  ['a prefix alone', 'sha256='],
  ['another algorithm', `sha512=${hex}`],
  ['two prefixes', `sha256=sha256=${hex}`],
  ['hex that is too short', hex.slice(2)],
  ['hex that is too long', `${hex}00`],
  ['base64 that is too short', base64.slice(4)],
  ['base64 with too much padding', `${base64}=`],
  ['letters that are not ASCII', 'ї'.repeat(64)],
  ['the header twice', `${hex}, ${hex}`],
  ['a list', [hex]],
] as const) {
  test(`${name} is a malformed signature`, () => {
    assert.deepEqual(verify(own(value as string)), { rejection: 'signature_malformed' });
  });
}

test('without any signature, or without a secret, nothing is verified', () => {
  assert.deepEqual(verify({}), { rejection: 'signature_missing' });
  for (const headers of [own(hmac(BODY, '').toString('hex')), own(hex), signed]) {
    assert.deepEqual(verifier('')(headers, Buffer.from(BODY)), { rejection: 'secret_not_set' });
  }
});

test('the header of the body’s HMAC has the configured name, in whatever case', () => {
  const github = verifier(SECRET, 'X-Hub-Signature-256');
  const headers = { 'x-hub-signature-256': `sha256=${hex}` };
  assert.deepEqual(github(headers, Buffer.from(BODY)), { form: 'hmac', deliveryId: null });
  assert.deepEqual(github(own(hex), Buffer.from(BODY)), { rejection: 'signature_missing' });
});

test('a header that Standard Webhooks uses too can carry the body’s HMAC', () => {
  const shared = verifier(SECRET, 'webhook-signature');
  const alone = { 'webhook-signature': hex };
  assert.deepEqual(shared(alone, Buffer.from(BODY)), { form: 'hmac', deliveryId: null });
  assert.deepEqual(shared(signed, Buffer.from(BODY)), { form: 'standard', deliveryId: 'msg_1' });
});

test('what is signed is bytes, whatever they stand for', () => {
  const body = Buffer.from([0xff, 0x00, 0xef, 0xbb, 0xbf, 0xc3]);
  assert.deepEqual(verify(own(hmac(body).toString('hex')), body), {
    form: 'hmac',
    deliveryId: null,
  });
});

for (const [name, signatures] of [
  ['one signature', `v1,${v1}`],
  ['a signature without padding', `v1,${v1.replace('=', '')}`],
  ['a signature after one of another key', `v1,${hmac('other').toString('base64')} v1,${v1}`],
  ['a signature before one of another key', `v1,${v1} v1,${hmac('other').toString('base64')}`],
  ['a signature among those of other versions', `v1a,c2ln v2,${v1} v1,${v1}`],
  ['a signature beside a short one', `v1,c2ln v1,${v1}`],
] as const) {
  test(`Standard Webhooks: ${name} is verified`, () => {
    const headers = { ...signed, 'webhook-signature': signatures };
    assert.deepEqual(verify(headers), { form: 'standard', deliveryId: 'msg_1' });
  });
}

for (const [name, headers, rejection] of [
  ['no id', { 'webhook-id': undefined }, 'signature_missing'],
  ['no timestamp', { 'webhook-timestamp': undefined }, 'signature_missing'],
  ['no signature', { 'webhook-signature': undefined }, 'signature_missing'],
  ['another id', { 'webhook-id': 'msg_2' }, 'signature_wrong'],
  ['an empty id', { 'webhook-id': '' }, 'signature_malformed'],
  ['the id twice', { 'webhook-id': 'msg_1, msg_1' }, 'signature_malformed'],
  ['an id that is not ASCII', { 'webhook-id': 'ї' }, 'signature_malformed'],
  ['an id without end', { 'webhook-id': 'm'.repeat(256) }, 'signature_malformed'],
  ['an id as a list', { 'webhook-id': ['msg_1'] }, 'signature_malformed'],
  ['a timestamp of another second', { 'webhook-timestamp': '1795249801' }, 'signature_wrong'],
  ['a timestamp that is a date', { 'webhook-timestamp': '2026-11-21' }, 'signature_malformed'],
  ['a negative timestamp', { 'webhook-timestamp': '-1795249800' }, 'signature_malformed'],
  ['a fraction', { 'webhook-timestamp': '1795249800.0' }, 'signature_malformed'],
  ['hex', { 'webhook-signature': `v1,${hex}` }, 'signature_wrong'],
  ['no version', { 'webhook-signature': v1 }, 'signature_malformed'],
  ['other versions only', { 'webhook-signature': `v1a,${v1} v2,${v1}` }, 'signature_wrong'],
  ['an empty signature', { 'webhook-signature': 'v1,' }, 'signature_malformed'],
  ['the signature twice', { 'webhook-signature': `v1,${v1}, v1,${v1}` }, 'signature_malformed'],
  ['two spaces', { 'webhook-signature': `v1,${v1}  v1,${v1}` }, 'signature_malformed'],
  ['a short signature', { 'webhook-signature': 'v1,c2ln' }, 'signature_wrong'],
] as const) {
  test(`Standard Webhooks: ${name} is ${rejection}`, () => {
    assert.deepEqual(verify({ ...signed, ...(headers as Headers) }), { rejection });
  });
}

test('Standard Webhooks: another body, another key, and the key of the secret’s base64', () => {
  const key = randomBytes(24);
  const byKey = standardHeaders(BODY, { id: 'msg_1', at: NOW, key });
  assert.deepEqual(verify(signed, `${BODY} `), { rejection: 'signature_wrong' });
  assert.deepEqual(verify(byKey), { rejection: 'signature_wrong' });
  for (const encoding of ['base64', 'base64url'] as const) {
    const secret = `whsec_${key.toString(encoding)}`;
    const body = Buffer.from(BODY);
    assert.deepEqual(verifier(secret)(byKey, body), { form: 'standard', deliveryId: 'msg_1' });
    // The form that signs the body alone knows no such prefix: there the whole text is the key.
    const plain = own(hmac(BODY, secret).toString('hex'));
    assert.deepEqual(verifier(secret)(plain, body), { form: 'hmac', deliveryId: null });
    assert.deepEqual(verifier(secret)(signed, body), { rejection: 'signature_wrong' });
  }
});

for (const [name, secret] of [
  ['base64', Buffer.alloc(32, 0xfb).toString('base64')],
  ['base64 without padding', Buffer.alloc(32, 0xfb).toString('base64').replace('=', '')],
  ['base64url', Buffer.alloc(24, 0xfb).toString('base64url')],
  ['letters that could be base64', 'correct-horse-battery-staple-and-hay'],
] as const) {
  test(`Standard Webhooks: a secret of ${name} without a prefix is a text or a key`, () => {
    const body = Buffer.from(BODY);
    const decoded = Buffer.from(secret, 'base64');
    for (const key of [Buffer.from(secret), decoded]) {
      const headers = standardHeaders(BODY, { id: 'msg_1', at: NOW, key });
      assert.deepEqual(verifier(secret)(headers, body), { form: 'standard', deliveryId: 'msg_1' });
      const other = Buffer.from(`${BODY} `);
      assert.deepEqual(verifier(secret)(headers, other), { rejection: 'signature_wrong' });
    }
    const key = Buffer.concat([decoded, Buffer.alloc(1, 1)]);
    const headers = standardHeaders(BODY, { id: 'msg_1', at: NOW, key });
    assert.deepEqual(verifier(secret)(headers, body), { rejection: 'signature_wrong' });
    // The form that signs the body alone knows of no base64: there the text is the key.
    const plain = (by: string | Buffer) => own(createHmac('sha256', by).update(body).digest('hex'));
    assert.deepEqual(verifier(secret)(plain(secret), body), { form: 'hmac', deliveryId: null });
    assert.deepEqual(verifier(secret)(plain(decoded), body), { rejection: 'signature_wrong' });
  });
}

for (const [name, secret] of [
  ['of base64 that is too short for a key', Buffer.alloc(23, 1).toString('base64')],
  ['that is no base64', `${Buffer.alloc(32, 1).toString('base64')}!`],
  ['of a length that base64 does not have', 'a'.repeat(41)],
] as const) {
  test(`Standard Webhooks: a secret ${name} is a plain text`, () => {
    for (const [key, expected] of [
      [Buffer.from(secret), { form: 'standard', deliveryId: 'msg_1' }],
      [Buffer.from(secret, 'base64'), { rejection: 'signature_wrong' }],
    ] as const) {
      const headers = standardHeaders(BODY, { id: 'msg_1', at: NOW, key });
      assert.deepEqual(verifier(secret)(headers, Buffer.from(BODY)), expected);
    }
  });
}

for (const secret of ['whsec_', 'whsec_no base64', 'whsec_A']) {
  test(`Standard Webhooks: "${secret}" is a plain text, since no key is encoded in it`, () => {
    const headers = standardHeaders(BODY, { id: 'msg_1', at: NOW, key: Buffer.from(secret) });
    const result = verifier(secret)(headers, Buffer.from(BODY));
    assert.deepEqual(result, { form: 'standard', deliveryId: 'msg_1' });
  });
}

for (const [seconds, isTaken] of [
  [-301, false],
  [-300, true],
  [0, true],
  [300, true],
  [301, false],
] as const) {
  test(`Standard Webhooks: ${seconds} s from now is ${isTaken ? 'near' : 'too far'}`, () => {
    const headers = standardHeaders(BODY, { id: 'msg_1', at: later(seconds) });
    assert.deepEqual(
      verify(headers),
      isTaken
        ? { form: 'standard', deliveryId: 'msg_1' }
        : { rejection: 'timestamp_out_of_tolerance' },
    );
  });
}

test('where a header of Standard Webhooks is there, an HMAC of the body does not count', () => {
  for (const [name, value] of Object.entries(signed)) {
    const result = verify({ ...own(hex), [name]: value });
    assert.deepEqual(result, { rejection: 'signature_missing' }, name);
  }
});

test('arbitrary headers and bodies are refused without an exception', () => {
  const value = fc.oneof(
    fc.string({ unit: 'binary', maxLength: 100 }),
    fc.constantFrom(hex, base64, `v1,${v1}`, `v1,${v1} v1,${v1}`, 'msg_1', String(NOW.getTime())),
    fc.array(fc.string(), { maxLength: 3 }),
  );
  const headers = fc.record(
    {
      'x-webhook-signature': value,
      'webhook-id': value,
      'webhook-timestamp': fc.oneof(value, fc.constant(signed['webhook-timestamp'])),
      'webhook-signature': value,
    },
    { requiredKeys: [] },
  );
  fc.assert(
    fc.property(headers, fc.uint8Array({ maxLength: 50 }), (given, body) => {
      assert.ok('rejection' in verifier()(given, body));
    }),
    { numRuns: 1000 },
  );
});

const read = (text: string) => readEvent(Buffer.from(text));
const nothing = { name: null, userId: null, eventId: null };

for (const [text, expected] of [
  ['{"event":"user.blocked","user_id":"u-1"}', { name: 'user.blocked', userId: 'u-1' }],
  ['{"type":"user.blocked","user_id":"u-1"}', { name: 'user.blocked', userId: 'u-1' }],
  ['{"event":"a","type":"b"}', { name: 'a' }],
  ['{"event":"","type":"b"}', { name: 'b' }],
  ['{"event":{"id":1},"type":"b"}', { name: 'b' }],
  ['{"data":{"user_id":"u-1"}}', { userId: 'u-1' }],
  ['{"user_id":"u-1","data":{"user_id":"u-2"}}', { userId: 'u-1' }],
  ['{"user_id":null,"data":{"user_id":7}}', { userId: '7' }],
  ['{"data":[{"user_id":"u-1"}]}', {}],
  ['{"user_id":42}', { userId: '42' }],
  ['{"user_id":-0}', { userId: '0' }],
  ['{"user_id":12345678901234567890}', { userId: '12345678901234567890' }],
  ['{"user_id":4.5}', {}],
  ['{"user_id":1e3}', {}],
  ['{"user_id":true}', {}],
  ['{"user_id":["u-1"]}', {}],
  ['{"user_id":""}', {}],
  ['{"user_id":"u\\u0000"}', {}],
  ['{"user_id":"\\ud800"}', {}],
  [`{"user_id":"${'u'.repeat(255)}"}`, { userId: 'u'.repeat(255) }],
  [`{"user_id":"${'u'.repeat(256)}"}`, {}],
  [`{"user_id":${'9'.repeat(60_000)}}`, {}],
  ['{"event_id":"evt_1"}', { eventId: 'evt_1' }],
  ['{"event_id":17}', { eventId: '17' }],
  ['{"event":"user.\\u0000blocked"}', { name: 'user.\ufffdblocked' }],
  [`{"event":"${'e'.repeat(101)}"}`, { name: 'e'.repeat(100) }],
  ['{"__proto__":{"event":"user.blocked","user_id":"u-1"}}', {}],
  ['\ufeff {"user_id":"u-1"}\n', { userId: 'u-1' }],
  ['{}', {}],
] as const) {
  test(`the body ${JSON.stringify(text.slice(0, 60))} is ${JSON.stringify(expected).slice(0, 60)}`, () => {
    assert.deepEqual(read(text), { ...nothing, ...expected });
  });
}

for (const text of ['', ' ', '[]', '[{"event":"a"}]', 'null', '"event"', '1', '{', '{"event"}']) {
  test(`the body ${JSON.stringify(text)} is no event`, () => {
    assert.equal(read(text), undefined);
  });
}

test('a body that is not UTF-8, or nested without end, is no event', () => {
  assert.equal(readEvent(Buffer.from([0x7b, 0x22, 0xff, 0x22, 0x3a, 0x31, 0x7d])), undefined);
  assert.equal(readEvent(Buffer.from('{"event":"a"}', 'utf16le')), undefined);
  assert.equal(read(`{"data":${'['.repeat(30_000)}${']'.repeat(30_000)}}`), undefined);
});

test('arbitrary bodies are read without an exception, and give only what can be stored', () => {
  const member = fc.oneof(fc.jsonValue({ depthSize: 'small' }), fc.string({ unit: 'binary' }));
  const body = fc.oneof(
    fc.json({ maxDepth: 4 }).map((text) => Buffer.from(text)),
    fc.uint8Array({ maxLength: 100 }).map((bytes) => Buffer.from(bytes)),
    fc
      .record({ event: member, type: member, user_id: member, event_id: member, data: member })
      .map((value) => Buffer.from(JSON.stringify(value))),
  );
  fc.assert(
    fc.property(body, (bytes) => {
      for (const value of Object.values(readEvent(bytes) ?? {})) {
        assert.ok(value === null || (value !== '' && value.length <= 255));
        assert.ok(value === null || (value.isWellFormed() && !value.includes('\u0000')));
      }
    }),
    { numRuns: 1000 },
  );
});
