import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isEndpointRecord, isInventory } from '@oselya/inventory';
import type { EndpointRecord } from '@oselya/inventory';
import schema from '@oselya/inventory/endpoint.schema.json' with { type: 'json' };
import fc from 'fast-check';
import { VALID_RECORD } from '../support/findings.ts';

// The fields that the type of a record names; the compiler holds the table to them.
type Field = keyof {
  [Name in keyof EndpointRecord as string extends Name ? never : Name]: unknown;
};

// Specification 002, Resources and their fields, row by row.
const TABLE = {
  id: ['string', 'required'],
  name: ['string', 'required'],
  type: ['string', 'required'],
  status: ['string', 'required'],
  exposure: ['exposure', 'required'],
  docs: ['string', 'required'],
  last_reviewed: ['string', 'required'],
  url: ['string', 'optional'],
  protocol: ['string', 'optional'],
  host: ['string', 'optional'],
  port: ['integer', 'optional'],
  domain: ['string', 'optional'],
  service: ['string', 'optional'],
  owner_host: ['string', 'optional'],
  purpose: ['string', 'optional'],
  auth: ['string', 'optional'],
  notes: ['string', 'optional'],
  source_of_truth: ['string', 'optional'],
} as const satisfies Record<Field, readonly [string, string]>;

const EXPOSURES = ['public', 'vpn', 'local', 'private', 'unknown'];

const other = fc.oneof(
  fc.constant(null),
  fc.boolean(),
  fc.array(fc.string()),
  fc.dictionary(fc.string(), fc.string()),
);
const number = fc.oneof(fc.integer(), fc.double());

// What each type of the table allows, and what it does not.
const ALLOWED = {
  string: fc.string(),
  exposure: fc.constantFrom(...EXPOSURES),
  integer: fc.oneof(fc.integer(), fc.maxSafeInteger()),
};
const REFUSED = {
  string: fc.oneof(other, number),
  exposure: fc.oneof(
    other,
    number,
    fc.string().filter((text) => !EXPOSURES.includes(text)),
    fc.constantFrom('Public', 'VPN', ' local', 'private ', ''),
  ),
  integer: fc.oneof(
    other,
    fc.string(),
    fc.integer().map(String),
    fc.double().filter((value) => !Number.isInteger(value)),
  ),
};

for (const [field, [type, need]] of Object.entries(TABLE)) {
  test(`${field}: ${type}, ${need}`, () => {
    fc.assert(
      fc.property(ALLOWED[type], REFUSED[type], (right, wrong) => {
        assert.ok(isEndpointRecord({ ...VALID_RECORD, [field]: right }));
        assert.ok(!isEndpointRecord({ ...VALID_RECORD, [field]: wrong }));
        assert.equal(isEndpointRecord.errors?.[0]?.instancePath, `/${field}`);
      }),
    );
    const without: Record<string, unknown> = { ...VALID_RECORD };
    delete without[field];
    assert.equal(isEndpointRecord(without), need === 'optional');
  });
}

test('the schema has the fields of the table and no other rule', () => {
  assert.equal(schema.$id, 'endpoint.schema.json');
  assert.equal(schema.$schema, 'https://json-schema.org/draft/2020-12/schema');
  assert.deepEqual(Object.keys(schema.items.properties), Object.keys(TABLE));
  const rules = new Set(Object.values(schema.items.properties).flatMap(Object.keys));
  assert.deepEqual([...rules].toSorted(), ['enum', 'type']);
  assert.deepEqual(Object.keys(schema.items).toSorted(), ['properties', 'required', 'type']);
});

test('extra properties of any kind are allowed', () => {
  fc.assert(
    fc.property(fc.dictionary(fc.string(), fc.jsonValue()), (extra) => {
      assert.ok(isEndpointRecord({ ...extra, ...VALID_RECORD }));
    }),
  );
});

test('only own properties count', () => {
  assert.ok(!isEndpointRecord(Object.create(VALID_RECORD)));
  assert.ok(!isEndpointRecord(JSON.parse('{"__proto__": {"id": "x"}}')));
});

test('an inventory is an array', () => {
  assert.ok(isInventory([]));
  assert.ok(isInventory([VALID_RECORD]));
  for (const wrong of [{}, null, 'x', VALID_RECORD, [VALID_RECORD, 1], [[]]]) {
    assert.ok(!isInventory(wrong));
  }
});
