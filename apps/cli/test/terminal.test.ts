import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { oneLine, printableJson } from '../src/terminal.ts';

/** Whether a text holds a control character, a line break aside, or a mark that reorders text. */
const acts = (text: string) =>
  /[\p{Cc}\u200E\u200F\u2028-\u202E\u2066-\u2069]/u.test(text.replaceAll('\n', ''));

const texts = fc.string({
  unit: fc.oneof(
    fc.string({ unit: 'binary', minLength: 1, maxLength: 1 }),
    fc.constantFrom('\u001B', '\n', '\u009B', '\u2028', '\u202E', '\uFEFF', '\uD800', 'ї', '🏡'),
  ),
});

test('what would act on a terminal is left out of a line', () => {
  assert.equal(oneLine('\u001B[2JДім\r\n у\u202E Львові\u009B1m\u0000 '), '[2JДім у Львові1m');
  fc.assert(
    fc.property(texts, (text) => {
      assert.ok(!acts(oneLine(text)));
      assert.ok(!oneLine(text).includes('\n'));
    }),
  );
});

test('printed JSON is the same value, and nothing in it acts on a terminal', () => {
  assert.equal(printableJson({ a: '\u009B' }), '{\n  "a": "\\u009b"\n}');
  fc.assert(
    fc.property(texts, (text) => {
      const json = printableJson({ text });
      assert.ok(!acts(json));
      assert.deepEqual(JSON.parse(json), { text });
    }),
  );
});
