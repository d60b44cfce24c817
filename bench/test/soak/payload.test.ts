import assert from 'node:assert/strict';
import { test } from 'node:test';
import { payloadAt } from '../../src/soak/payload.ts';

test('in four turns a listing changes its price once and its text once, and else says the same', () => {
  for (const nth of [0, 1, 2, 3, 4711]) {
    for (const from of [0, 3, 10]) {
      const changes = [1, 2, 3, 4].map((step) => {
        const [before, after] = [payloadAt(nth, from + step - 1), payloadAt(nth, from + step)];
        const isRepriced = before['price'] !== after['price'];
        const isReworded = before.description !== after.description;
        assert.ok(!(isRepriced && isReworded));
        assert.deepEqual(
          { ...before, price: 0, description: '' },
          { ...after, price: 0, description: '' },
        );
        return isRepriced ? 'price' : isReworded ? 'text' : 'same';
      });
      assert.deepEqual(changes.toSorted(), ['price', 'same', 'same', 'text']);
    }
  }
});
