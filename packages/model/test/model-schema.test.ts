import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Type } from 'typebox';
import { defineModelSchema } from '../src/model-schema.ts';

test('a schema is sent with all keys required, without bounds, and with the words for the model', () => {
  const schema = Type.Object({
    name: Type.String({ pattern: '^[^\\u0000]*$', minLength: 1, description: 'a name' }),
    kind: Type.Optional(Type.Enum(['a', 'b'], { description: 'which' })),
    size: Type.Union([Type.Integer({ minimum: 0 }), Type.Null()]),
    seen: Type.Optional(Type.Boolean()),
    tags: Type.Array(Type.String({ maxLength: 5 }), { maxItems: 3 }),
  });
  assert.deepEqual(defineModelSchema('thing', schema), {
    type: 'object',
    properties: {
      name: { type: 'string', description: 'a name' },
      kind: { type: ['string', 'null'], enum: ['a', 'b', null], description: 'which' },
      size: { type: ['integer', 'null'] },
      seen: { type: ['boolean', 'null'] },
      tags: { type: 'array', items: { type: 'string' } },
    },
    required: ['name', 'kind', 'size', 'seen', 'tags'],
    additionalProperties: false,
  });
});

test('a schema that some server does not know cannot be defined, and the error says where', () => {
  const unknown = {
    literals: Type.Union([Type.Literal('a'), Type.Literal('b')]),
    literal: Type.Literal('a'),
    types: Type.Union([Type.String(), Type.Number(), Type.Null()]),
    record: Type.Record(Type.String(), Type.String()),
    any: Type.Unknown(),
  };
  for (const [key, schema] of Object.entries(unknown)) {
    assert.throws(
      () => defineModelSchema('thing', Type.Object({ [key]: schema })),
      (error) => error instanceof TypeError && error.message.startsWith(`thing.${key}: `),
      key,
    );
  }
});
