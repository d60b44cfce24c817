import { RULES } from '@oselya/inventory';
import type { Finding, FindingCode } from '@oselya/inventory';
import fc from 'fast-check';

const codes = Object.keys(RULES).filter((code): code is FindingCode => code in RULES);
const anyText = fc.string({ unit: 'binary' });
const count = fc.integer({ min: 1, max: 10_000 });
const place = fc.record({ line: count, column: count, message: anyText });

/** Findings with everything in them that texts can hold. */
export const finding: fc.Arbitrary<Finding> = fc.record({
  file: fc.string({ unit: 'binary', minLength: 1 }),
  line: count,
  column: fc.integer({ min: 1, max: 50 }),
  pointer: anyText,
  recordId: fc.option(anyText),
  recordIndex: fc.option(fc.nat()),
  code: fc.constantFrom(...codes),
  message: anyText,
  severity: fc.constantFrom('error', 'warning'),
  related: fc.uniqueArray(place, { maxLength: 2, selector: ({ line }) => line }),
  excerpt: fc.record({ text: anyText, column: fc.integer({ min: 1, max: 50 }) }),
});
