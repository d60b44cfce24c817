import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createBody, formatGroup, KINDS, createQuestions } from '../../src/search/questions.ts';

const settings = { count: 48, seed: 1, dimensions: 8 };

test('equal seeds ask the same; every group gets its turn equally often', () => {
  for (const kind of KINDS) {
    const questions = createQuestions(kind, settings);
    assert.deepEqual(createQuestions(kind, settings), questions);
    const groups = [...Map.groupBy(questions, formatGroup).values()];
    assert.equal(groups.length, kind === 'similar' ? 4 : 12);
    assert.equal(new Set(groups.map(({ length }) => length)).size, 1);
  }
});

test('similar searches have a vector, the others words', () => {
  const [similar, hybrid] = (['similar', 'hybrid'] as const).map((kind) =>
    createQuestions(kind, settings).map(createBody),
  );
  assert.ok(similar?.every((body) => 'embedding' in body && !('query' in body)));
  assert.ok(hybrid?.every((body) => 'query' in body && !('embedding' in body)));
});
