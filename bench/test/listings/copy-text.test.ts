import assert from 'node:assert/strict';
import { test } from 'node:test';
import { arrayText, copyRow } from '../../src/listings/rows.ts';

test('what COPY would read as something else is written with backslashes', () => {
  assert.equal(copyRow(['a\tb\nc\\d\re', null, 5, '']), 'a\\tb\\nc\\\\d\\re\t\\N\t5\t\n');
});

test('quotes and backslashes in a list stay what they are', () => {
  assert.equal(arrayText(['a "b"', String.raw`c\d`]), String.raw`{"a \"b\"","c\\d"}`);
  assert.equal(arrayText([]), '{}');
});
