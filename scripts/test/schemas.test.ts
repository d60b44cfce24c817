import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as assistant from '@oselya/assistant';
import * as collector from '@oselya/collector';
import { compilePendingSchemas } from '@oselya/kit';
import { listModelSchemas } from '@oselya/model/testing';

test('every schema of requests and answers compiles', async () => {
  await assistant.openapi();
  await collector.openapi();
  assert.doesNotThrow(compilePendingSchemas);
});

type Operation = { requestBody?: object; responses: object };
type OpenApi = { paths: Record<string, Record<string, Operation>> };

test('every route with a body describes the rejections of bodies', async () => {
  const documents = (await Promise.all([assistant.openapi(), collector.openapi()])) as OpenApi[];
  for (const [path, methods] of documents.flatMap(({ paths }) => Object.entries(paths))) {
    for (const [method, { requestBody, responses }] of Object.entries(methods)) {
      if (requestBody === undefined) continue;
      const missingStatuses = ['400', '413', '415'].filter((status) => !(status in responses));
      assert.deepEqual(missingStatuses, [], `${method} ${path}`);
    }
  }
});

/** Keywords that llama.cpp, vLLM, Ollama and OpenAI's strict mode all support (docs/models.md). */
const KEYWORDS = {
  scalar: ['type', 'description'],
  enum: ['type', 'enum', 'description'],
  array: ['type', 'items', 'description'],
  object: ['type', 'properties', 'required', 'additionalProperties', 'description'],
};

/** Yields the violations of the supported subset (keywords, types, enums, required properties), each with its path. */
function* findViolations(schema: unknown, path: string): Generator<string> {
  const { type, items, properties = {}, ...otherKeywords } = schema as Record<string, unknown>;
  const [name, ...otherTypes] = [type].flat();
  const kind =
    'enum' in otherKeywords ? 'enum' : name === 'array' || name === 'object' ? name : 'scalar';
  const unknownKeywords = Object.keys(schema as object).filter(
    (key) => !KEYWORDS[kind].includes(key),
  );
  if (unknownKeywords.length > 0) yield `${path}: ${unknownKeywords.join(', ')}`;
  const types = ['string', 'number', 'integer', 'boolean', 'array', 'object'];
  if (
    !types.includes(String(name)) ||
    otherTypes.some((other) => other !== 'null') ||
    otherTypes.length > 1
  )
    yield `${path}: type ${String(type)}`;
  if (kind === 'enum') {
    const isAllowedValue = (value: unknown) =>
      typeof value === 'string' || (value === null && otherTypes.length === 1);
    if (name !== 'string' || ![otherKeywords.enum].flat().every(isAllowedValue))
      yield `${path}: enum`;
  }
  if (kind === 'array') yield* findViolations(items, `${path}[]`);
  if (kind !== 'object') return;
  const keys = Object.keys(properties as object);
  if (otherKeywords.additionalProperties !== false) yield `${path}: additionalProperties`;
  if (JSON.stringify(otherKeywords.required) !== JSON.stringify(keys)) yield `${path}: required`;
  for (const key of keys) {
    yield* findViolations((properties as Record<string, unknown>)[key], `${path}.${key}`);
  }
}

test('schemas for models use the subset that all servers support', async () => {
  await assistant.openapi();
  await collector.openapi();
  const modelSchemas = [...listModelSchemas()];
  const names = modelSchemas.map(([name]) => name);
  for (const name of ['listing_extraction', 'image_description', 'remember_fact', 'read_file']) {
    assert.ok(names.includes(name), `${name} is not among ${names.join(', ')}`);
  }
  assert.deepEqual(
    modelSchemas.flatMap(([name, schema]) => [...findViolations(schema, name)]),
    [],
  );
});

test('unsupported keywords are found', () => {
  const textSchema = { type: 'string' };
  const objectSchema = { type: 'object', additionalProperties: false };
  const faultySchema = {
    pattern: { ...textSchema, pattern: '^a$' },
    bounds: { type: 'array', items: { ...textSchema, maxLength: 5 } },
    union: { anyOf: [textSchema, { type: 'null' }] },
    types: { type: ['string', 'number'] },
    literal: { const: 'a' },
    optional: { ...objectSchema, properties: { a: textSchema }, required: [] },
    open: { type: 'object', properties: {}, required: [] },
  };
  for (const [name, schema] of Object.entries(faultySchema)) {
    assert.notDeepEqual([...findViolations(schema, name)], [], name);
  }
});
