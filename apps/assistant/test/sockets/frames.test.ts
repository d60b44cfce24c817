import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { ProblemError } from '@oselya/kit';
import { idOf, readFrame } from '../../src/conversations/dispatch.ts';

const read = (text: string) => readFrame(Buffer.from(text), false);

const isMalformed = (error: unknown) =>
  error instanceof ProblemError && error.code === 'malformed_message';

test('a JSON object with a type is a message, with its members', () => {
  assert.deepEqual(read('{"type":"ping","id":"1","more":[1]}'), {
    type: 'ping',
    id: '1',
    more: [1],
  });
});

for (const text of [
  '',
  ' ',
  'ping',
  '{',
  '{"type":"ping"',
  'null',
  '1',
  '"ping"',
  '[]',
  '["type"]',
  '{}',
  '{"type":1}',
  '{"type":null}',
  '{"__proto__":{"type":"ping"}}',
  '{"type":"ping"}{"type":"ping"}',
  "{'type':'ping'}",
]) {
  test(`${text} is malformed`, () => assert.throws(() => read(text), isMalformed));
}

test('binary frames are refused, whatever is in them', () => {
  assert.throws(() => readFrame(Buffer.from('{"type":"ping"}'), true), isMalformed);
});

test('whatever the bytes are, they are a message or malformed', () => {
  fc.assert(
    fc.property(
      fc.oneof(
        fc.uint8Array(),
        fc.json().map((text) => Buffer.from(text)),
      ),
      (bytes) => {
        try {
          assert.equal(typeof readFrame(Buffer.from(bytes), false).type, 'string');
        } catch (error) {
          assert.ok(isMalformed(error));
        }
      },
    ),
    { numRuns: 2000 },
  );
});

test('a text of at most 128 characters or a whole number is an id', () => {
  assert.equal(idOf({ type: 'ping', id: 'a'.repeat(128) }), 'a'.repeat(128));
  assert.equal(idOf({ type: 'ping', id: 7 }), 7);
  assert.equal(idOf({ type: 'ping', id: 0.5 }), undefined);
  for (const id of ['a'.repeat(129), 1.5, 2 ** 60, null, {}, undefined]) {
    assert.equal(idOf({ type: 'ping', id }), undefined);
  }
});
