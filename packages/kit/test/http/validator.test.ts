import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Type } from 'typebox';
import { createValidatorCompiler } from '../../src/index.ts';

const schema = Type.Object(
  {
    name: Type.Optional(Type.String()),
    phones: Type.Optional(Type.Array(Type.String(), { maxItems: 20 })),
    more: Type.Optional(Type.Object({}, { additionalProperties: true })),
  },
  { additionalProperties: false },
);
const compile = createValidatorCompiler();
const validators = ['body', 'querystring'].map((httpPart) =>
  compile({ schema, method: 'POST', url: '/', httpPart }),
);

function keywordsOf(value: unknown): string[][] {
  return validators.map((validate) => {
    assert.equal(validate(value), false);
    return (validate.errors ?? []).map(({ keyword }) => keyword);
  });
}

test('all that is wrong is told', () => {
  const wrong = { name: {}, phones: [{}, ...Array<string>(20).fill('1'), {}], unknown: 1 };
  const told = ['additionalProperties', 'maxItems', 'type', 'type', 'type'];
  assert.deepEqual(
    keywordsOf(wrong).map((keywords) => keywords.toSorted()),
    [told, told],
  );
  for (const validate of validators) assert.equal(validate({ name: 'a' }), true);
});

test('of a huge request one error is made, whatever it is full of', () => {
  const phones = Array.from({ length: 500_000 }, () => ({}));
  const keys = Object.fromEntries(Array.from({ length: 50_000 }, (_, n) => [`k${n}`, n]));
  for (const wrong of [{ phones }, keys, { name: {}, more: { deep: { phones } } }]) {
    assert.deepEqual(
      keywordsOf(wrong).map(({ length }) => length),
      [1, 1],
    );
  }
});

test('a request of any depth is checked', () => {
  let more: object = {};
  for (let depth = 0; depth < 4000; depth += 1) more = { more };
  assert.deepEqual(keywordsOf({ name: {}, more }), [['type'], ['type']]);
});
