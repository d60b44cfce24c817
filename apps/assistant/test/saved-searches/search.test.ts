import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { test } from 'node:test';
import { searchSchema } from '../../src/saved-searches/search.ts';

const document = JSON.parse(
  await readFile(new URL('../../../../docs/openapi/collector.json', import.meta.url), 'utf8'),
);
const { components } = document;

/** Returns the rules of a schema, without texts for people, and with choices in one form. */
function rules(schema: unknown): Record<string, unknown> {
  const { type: _type, anyOf, ...bare } = bareOf(schema);
  if (anyOf === undefined) return bare;
  return { ...bare, enum: (anyOf as { enum: string[] }[]).flatMap((choice) => choice.enum) };
}

function bareOf(schema: unknown): Record<string, unknown> {
  return JSON.parse(
    JSON.stringify(schema, (key, value: unknown) =>
      ['description', 'default', 'examples'].includes(key) ? undefined : value,
    ),
  );
}

test('a saved search has exactly the filters of the collector', () => {
  const { ids, ...matches } = components.schemas.SearchMatchesRequest.properties;
  assert.ok(ids !== undefined);
  const own: Record<string, unknown> = { ...searchSchema.properties };
  assert.deepEqual(Object.keys(own).toSorted(), Object.keys(matches).toSorted());
  for (const [name, schema] of Object.entries(own)) {
    assert.deepEqual(rules(schema), rules(matches[name]), name);
  }
  const { limit, cursor, highlight, fold_duplicates, ...fulltext } =
    components.schemas.FulltextSearchRequest.properties;
  assert.ok(limit && cursor && highlight && fold_duplicates);
  assert.deepEqual(Object.keys(own).toSorted(), Object.keys(fulltext).toSorted());
});
