import assert from 'node:assert/strict';
import { test } from 'node:test';
import { compilersFactory } from '../../src/http/compilers.ts';
import { compileAll } from '../../src/http/late.ts';

type Compile = (part: { schema: object; httpPart?: string }) => (value: unknown) => unknown;
const { buildValidator, buildSerializer } = compilersFactory as unknown as Record<
  'buildValidator' | 'buildSerializer',
  (shared: object, options?: object) => Compile
>;

const count = (maximum: number) => ({ $id: 'count', type: 'integer', maximum });
const body = { schema: { $ref: 'count' }, httpPart: 'body' };

test('what reads the same is compiled once, whichever scope asks', () => {
  const compiled = buildValidator({ count: count(3) })(body);
  assert.equal(buildValidator({ count: count(3) })(structuredClone(body)), compiled);
  const serialized = { schema: { type: 'object', properties: { a: { type: 'number' } } } };
  assert.equal(
    buildSerializer({})(structuredClone(serialized)),
    buildSerializer({})(structuredClone(serialized)),
  );
});

test('a schema means what the scope that asks says that it refers to', () => {
  assert.equal(buildValidator({ count: count(3) })(body)(4), false);
  assert.equal(buildValidator({ count: count(5) })(body)(4), true);
});

test('a number may be text in an address, and not in a body, with the same schema', () => {
  const compile = buildValidator({});
  const schema = { type: 'object', properties: { limit: { type: 'integer' } } };
  assert.equal(compile({ schema, httpPart: 'body' })({ limit: '2' }), false);
  assert.equal(compile({ schema, httpPart: 'querystring' })({ limit: '2' }), true);
});

test('what cannot be compiled is found without a request', () => {
  buildValidator({})({ schema: { $ref: 'nowhere' }, httpPart: 'body' });
  assert.throws(compileAll, /nowhere/);
});

test('serializers differ with their options', () => {
  const schema = { type: 'object', properties: { a: { type: 'integer' } } };
  const text = (rounding: string) => buildSerializer({}, { rounding })({ schema })({ a: 1.5 });
  assert.equal(text('floor'), '{"a":1}');
  assert.equal(text('ceil'), '{"a":2}');
});
