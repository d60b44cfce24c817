import assert from 'node:assert/strict';
import { test } from 'node:test';
import { lintInventory } from '@oselya/inventory';
import fc from 'fast-check';
import { readDay } from '../../src/day.ts';
import { applyFixes } from '../../src/fix/apply-fixes.ts';
import { VALID_RECORD } from '../support/findings.ts';

const today = readDay('2026-11-20');
assert.ok(today);
const lint = (text: string) => Array.fromAsync(lintInventory(text, { today }));

const wrong = { exposure: ' VPN ', port: '443', last_reviewed: '2026/1/5' };
const right = { exposure: 'vpn', port: 443, last_reviewed: '2026-01-05' };

test('only what was wrong changes, whatever stands around it', async () => {
  const extra = fc.dictionary(fc.string({ unit: 'grapheme' }), fc.jsonValue(), { maxKeys: 3 });
  await fc.assert(
    fc.asyncProperty(
      fc.array(extra, { minLength: 1, maxLength: 4 }),
      fc.constantFrom(undefined, 2, '\t'),
      fc.boolean(),
      async (extras, space, hasMark) => {
        const records = (values: object) =>
          extras.map((more) => ({ ...more, ...VALID_RECORD, ...values }));
        const write = (values: object) =>
          (hasMark ? '\uFEFF' : '') + JSON.stringify(records(values), null, space);
        const text = write(wrong);
        const findings = await lint(text);
        const mended = applyFixes(text, findings);
        assert.equal(mended.text, write(right));
        assert.equal(mended.applied, 3 * extras.length);
        assert.equal(applyFixes(mended.text, await lint(mended.text)).applied, 0);
      },
    ),
  );
});

test('a place at which something else stands is left as it is', async () => {
  const text = JSON.stringify([{ ...VALID_RECORD, port: '443' }]);
  const findings = await lint(text);
  const other = text.replace('"443"', '"80"');
  assert.deepEqual(applyFixes(other, findings), { text: other, applied: 0 });
});
