import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createRandom } from '../../src/listings/random.ts';
import { createVectors } from '../../src/listings/vector.ts';

const vectors = createVectors(64);
const made = Array.from({ length: 600 }, (_, nth) => vectors.of(createRandom(1, nth)));

function dot(one: Int16Array, other: Int16Array): number {
  return one.reduce((sum, value, at) => sum + value * (other[at] ?? 0), 0);
}

function cosine(a: Int16Array, b: Int16Array): number {
  return dot(a, b) / Math.sqrt(dot(a, a) * dot(b, b));
}

test('equal seeds make equal vectors', () => {
  assert.deepEqual(createVectors(64).of(createRandom(1, 5)), made[5]);
});

test('vectors are in clusters: some are near, most are far', () => {
  const [first, ...others] = made;
  assert.ok(first);
  const near = others.map((other) => cosine(first, other)).toSorted((a, b) => b - a);
  assert.ok((near[0] ?? 0) > 0.3, `the nearest: ${near[0]}`);
  const middle = near[Math.floor(near.length / 2)] ?? 1;
  assert.ok(Math.abs(middle) < 0.3, `the one in the middle: ${middle}`);
});
