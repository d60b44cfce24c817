import assert from 'node:assert/strict';
import { test } from 'node:test';
import { bodyOf, groupOf, KINDS, makeQuestions } from '../../src/search/questions.ts';

const settings = { count: 48, seed: 1, dimensions: 8 };

test('equal seeds ask the same; every group gets its turn equally often', () => {
  for (const kind of KINDS) {
    const questions = makeQuestions(kind, settings);
    assert.deepEqual(makeQuestions(kind, settings), questions);
    const groups = [...Map.groupBy(questions, groupOf).values()];
    assert.equal(groups.length, kind === 'similar' ? 4 : 12);
    assert.equal(new Set(groups.map(({ length }) => length)).size, 1);
  }
});

test('similar searches have a vector, the others words', () => {
  const [similar, hybrid] = (['similar', 'hybrid'] as const).map((kind) =>
    makeQuestions(kind, settings).map(bodyOf),
  );
  assert.ok(similar?.every((body) => 'embedding' in body && !('query' in body)));
  assert.ok(hybrid?.every((body) => 'query' in body && !('embedding' in body)));
});
