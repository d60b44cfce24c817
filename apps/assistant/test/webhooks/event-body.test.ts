import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { readEvent } from '../../src/webhooks/events.ts';

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
    { numRuns: 3000 },
  );
});
