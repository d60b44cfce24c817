import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import {
  arrayText,
  base64Text,
  joinPieces,
  type JsonText,
  objectText,
} from '../../src/own-data/json-text.ts';

/** More than a piece holds. */
const LONG = 'ґ'.repeat(100_000);

async function* each<Value>(values: readonly Value[]): AsyncGenerator<Value> {
  yield* values;
}

const read = async (text: JsonText) => (await Array.fromAsync(text)).join('');

const rows = fc.array(fc.dictionary(fc.string({ unit: 'binary' }), fc.jsonValue()), {
  maxLength: 5,
});

test('what is written as it comes is what JSON.stringify writes at once', async () => {
  await fc.assert(
    fc.asyncProperty(rows, rows, async (first, second) => {
      const value = { first, at: new Date(0), none: undefined, inner: { second, last: 1 } };
      const inner = objectText({ second: arrayText(each(second)), last: 1 });
      const text = objectText({ ...value, first: arrayText(each(first)), inner });
      assert.equal(await read(joinPieces(text)), JSON.stringify(value));
    }),
  );
});

test('bytes are written as base64, however many they are', async () => {
  for (const length of [0, 1, 49_151, 49_152, 49_153, 200_000]) {
    const bytes = Buffer.alloc(length, 'будинок');
    assert.equal(await read(base64Text(bytes)), `"${bytes.toString('base64')}"`);
  }
});

test('nothing is made before it is asked for, and what is short goes together', async () => {
  let made = 0;
  let isOver = false;
  async function* endless() {
    try {
      for (;;) {
        made += 1;
        yield { row: made, text: 'x'.repeat(1000) };
      }
    } finally {
      isOver = true;
    }
  }
  const pieces = joinPieces(objectText({ rows: arrayText(endless()) }));
  assert.equal(made, 0);
  const first = await pieces.next();
  assert.ok(first.value !== undefined && first.value.length >= 64 * 1024);
  assert.ok(made < 70, `${made} rows for ${first.value.length} letters`);
  const before = made;
  await pieces.return();
  assert.deepEqual([made, isOver], [before, true], 'whoever leaves ends what is read');
});

test('a failure comes after what was written before it, which nothing completes', async () => {
  async function* failing() {
    yield { text: LONG };
    throw new Error('away');
  }
  const pieces: string[] = [];
  await assert.rejects(async () => {
    for await (const piece of joinPieces(objectText({ rows: arrayText(failing()) }))) {
      pieces.push(piece);
    }
  }, /away/);
  assert.equal(pieces.join(''), `{"rows":[{"text":"${LONG}"}`);
});
