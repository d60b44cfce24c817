import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createPayloadForRound } from '../../src/soak/payload.ts';

test('one of five listings has two images, and one of them changes with the text', () => {
  for (let nth = 0; nth < 10; nth += 1) {
    const turns = [0, 1, 2, 3, 4].map((turn) =>
      createPayloadForRound(nth, turn, 'http://host.test'),
    );
    const images = turns.map((payload) => payload['image_urls'] as string[] | undefined);
    assert.deepEqual(
      images.map((urls) => urls?.length),
      Array(5).fill(nth % 5 === 0 ? 2 : undefined),
    );
    if (nth % 5 !== 0) continue;
    assert.equal(new Set(images.map((urls) => urls?.[0])).size, 1);
    const texts = new Set(turns.map(({ description }) => description)).size;
    assert.equal(new Set(images.map((urls) => urls?.[1])).size, texts);
  }
});

test('in four turns a listing changes its price once and its text once, and else says the same', () => {
  for (const nth of [0, 1, 2, 3, 4711]) {
    for (const from of [0, 3, 10]) {
      const changes = [1, 2, 3, 4].map((step) => {
        const [before, after] = [from + step - 1, from + step].map((turn) =>
          createPayloadForRound(nth, turn, 'http://host.test'),
        );
        assert.ok(before && after);
        const isRepriced = before['price'] !== after['price'];
        const isReworded = before.description !== after.description;
        assert.ok(!(isRepriced && isReworded));
        assert.deepEqual(
          { ...before, price: 0, description: '', image_urls: [] },
          { ...after, price: 0, description: '', image_urls: [] },
        );
        return isRepriced ? 'price' : isReworded ? 'text' : 'same';
      });
      assert.deepEqual(changes.toSorted(), ['price', 'same', 'same', 'text']);
    }
  }
});
