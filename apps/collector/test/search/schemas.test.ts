import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Value } from 'typebox/value';
import { checkPayload } from '../../src/ingest/payload.ts';
import { fulltextSearchRequest } from '../../src/search/schemas.ts';
import { payloadOf } from '../support/payload.ts';

test('a filter takes whatever a payload can bring for it', () => {
  for (const [field, most] of [
    ['city', 200],
    ['property_type', 100],
  ] as const) {
    const longest = { [field]: 'і'.repeat(most) };
    assert.deepEqual(checkPayload(payloadOf(longest)), [], field);
    assert.ok(Value.Check(fulltextSearchRequest, { query: 'дім', ...longest }), field);
    assert.notDeepEqual(checkPayload(payloadOf({ [field]: 'і'.repeat(most + 1) })), [], field);
  }
});
