import assert from 'node:assert/strict';
import { test } from 'node:test';
import { RULES } from '@oselya/inventory';
import type { Finding, FindingCode } from '@oselya/inventory';
import fc from 'fast-check';
import { githubReporter } from '../../src/output/github.ts';
import { jsonReporter } from '../../src/output/json.ts';
import type { Reporter } from '../../src/output/reporter.ts';
import { sarifReporter } from '../../src/output/sarif.ts';
import { textReporter } from '../../src/output/text.ts';

const codes = Object.keys(RULES).filter((code): code is FindingCode => code in RULES);
const anyText = fc.string({ unit: 'binary' });
const place = fc.record({ line: fc.nat(), column: fc.nat(), message: anyText });
const finding: fc.Arbitrary<Finding> = fc.record({
  file: fc.string({ unit: 'binary', minLength: 1 }),
  line: fc.nat(),
  column: fc.integer({ min: 1, max: 50 }),
  pointer: anyText,
  recordId: fc.option(anyText),
  recordIndex: fc.option(fc.nat()),
  code: fc.constantFrom(...codes),
  message: anyText,
  severity: fc.constantFrom('error', 'warning'),
  related: fc.array(place, { maxLength: 2 }),
  excerpt: fc.record({ text: anyText, column: fc.integer({ min: 1, max: 50 }) }),
});
const findings = fc.array(finding, { maxLength: 3 });

function print(reporter: Reporter, found: Finding[]): string {
  const result = {
    file: 'a.json',
    status: 'invalid',
    records: 1,
    errors: found.length,
    warnings: 0,
    isComplete: true,
  } as const;
  const parts = found.map((one) => reporter.finding(one));
  return [reporter.begin(), ...parts, reporter.fileEnd(result), reporter.end(1)].join('');
}

test('JSON output is one document, whatever the findings hold', () => {
  fc.assert(
    fc.property(findings, (found) => {
      const { findings: printed, files } = JSON.parse(print(jsonReporter(), found));
      assert.deepEqual(
        printed,
        found.map(({ excerpt: _excerpt, ...rest }) => JSON.parse(JSON.stringify(rest))),
      );
      assert.equal(files.length, 1);
    }),
  );
});

test('SARIF output is one log, whatever the findings hold', () => {
  fc.assert(
    fc.property(findings, (found) => {
      const log = JSON.parse(print(sarifReporter(), found));
      const [run] = log.runs;
      assert.equal(log.version, '2.1.0');
      for (const [index, result] of run.results.entries()) {
        assert.equal(run.tool.driver.rules[result.ruleIndex].id, found[index]?.code);
        const [{ physicalLocation }] = result.locations;
        assert.doesNotThrow(() => new URL(physicalLocation.artifactLocation.uri, 'file:///'));
        assert.equal(physicalLocation.region.startLine, found[index]?.line);
      }
    }),
  );
});

test('an annotation is one line that begins like one', () => {
  fc.assert(
    fc.property(finding, (found) => {
      const text = githubReporter().finding(found);
      assert.match(
        text,
        /^::(error|warning) file=[^:,\n]+,line=\d+,col=\d+,title=[a-z/0-9-]+::.*\n$/,
      );
    }),
  );
});

test('nothing that acts on a terminal is printed', () => {
  const plain = textReporter({ showsExcerpts: true, isColored: false });
  fc.assert(
    fc.property(finding, (found) => {
      for (const reporter of [plain, githubReporter()]) {
        const lines = reporter.finding(found).split('\n');
        for (const line of lines) assert.doesNotMatch(line, /[\p{Cc}\p{Cs}\u2028\u202A-\u202E]/u);
      }
    }),
  );
});
