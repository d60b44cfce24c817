import fc from 'fast-check';
import { marked } from './text.ts';

/** The keywords of JSON Schema that request bodies here use. */
type Schema = {
  type?: string;
  const?: unknown;
  enum?: unknown[];
  anyOf?: Schema[];
  items?: Schema;
  properties?: Record<string, Schema>;
};

/** Values of every kind that JSON has, small and deep. */
const anyValue: fc.Arbitrary<unknown> = fc.oneof(
  fc.jsonValue({ maxDepth: 3 }),
  marked,
  fc.constantFrom(null, true, 0, -1, 1.5, 1e308, [], {}, '', [[[[[[]]]]]]),
);

/** Values that a schema may well take, each member of which may also be something else. */
export function valueFor(schema: Schema): fc.Arbitrary<unknown> {
  return fc.oneof({ weight: 4, arbitrary: likely(schema) }, { weight: 1, arbitrary: anyValue });
}

function likely(schema: Schema): fc.Arbitrary<unknown> {
  if (schema.const !== undefined) return fc.constant(schema.const);
  if (schema.enum !== undefined) return fc.constantFrom(...schema.enum);
  if (schema.anyOf !== undefined) return fc.oneof(...schema.anyOf.map(likely));
  switch (schema.type) {
    case 'string':
      return marked;
    case 'boolean':
      return fc.boolean();
    case 'integer':
    case 'number':
      return fc.oneof(fc.integer(), fc.double());
    case 'null':
      return fc.constant(null);
    case 'array':
      return fc.array(valueFor(schema.items ?? {}), { maxLength: 3 });
    default:
      return members(schema.properties ?? {});
  }
}

/** Some of the members, and some that nobody knows. */
function members(properties: Record<string, Schema>): fc.Arbitrary<unknown> {
  const known = fc.record(
    Object.fromEntries(Object.entries(properties).map(([name, one]) => [name, valueFor(one)])),
    { requiredKeys: [] },
  );
  const unknown = fc.dictionary(marked, anyValue, { maxKeys: 2 });
  return fc.oneof(
    { weight: 4, arbitrary: known },
    {
      weight: 1,
      arbitrary: fc.tuple(known, unknown).map(([one, other]) => ({ ...other, ...one })),
    },
  );
}

/** Texts that are no JSON, or hardly. */
const NOT_JSON = [
  '',
  ' ',
  '{',
  '{"a":',
  '[1,]',
  '{"a":1}{"a":2}',
  "{'a':1}",
  '\ufeff{}',
  '{"__proto__":{"role":"admin"}}',
  '{"constructor":{"prototype":{"role":"admin"}}}',
  '{"name":"a","name":"b"}',
  '{"name":"\\ud800"}',
  '{"name":"\\u0000"}',
  '{"pinned":1e400}',
  '['.repeat(5000),
  `${'{"a":'.repeat(2000)}1${'}'.repeat(2000)}`,
  'null',
  '"text"',
  'NaN',
];

/** The bytes of a body for a schema: JSON most of the time. */
export function bodyFor(schema: Schema): fc.Arbitrary<Buffer> {
  const json = valueFor(schema).map((value) => Buffer.from(JSON.stringify(value) ?? ''));
  return fc.oneof(
    { weight: 6, arbitrary: json },
    { weight: 1, arbitrary: fc.constantFrom(...NOT_JSON).map((one) => Buffer.from(one)) },
    { weight: 1, arbitrary: marked.map((one) => Buffer.from(one)) },
    { weight: 1, arbitrary: fc.uint8Array({ maxLength: 60 }).map((one) => Buffer.from(one)) },
    {
      weight: 1,
      arbitrary: fc
        .tuple(json, fc.nat())
        .map(([one, at]) => one.subarray(0, at % (one.length + 1))),
    },
  );
}
