import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { gzipSync } from 'node:zlib';
import { type Finding, RULES } from '@oselya/inventory';
import draft04 from 'ajv-draft-04';
import formats from 'ajv-formats';
import fc from 'fast-check';
import { applyFixes } from '../../src/fix/apply-fixes.ts';
import { lintInventory } from '../../src/lint/lint.ts';
import { readDay } from '../../src/day.ts';
import type { Reporter } from '../../src/output/reporter.ts';
import { sarifReporter } from '../../src/output/sarif.ts';
import { finding } from '../support/any-finding.ts';
import { VALID_RECORD } from '../support/findings.ts';

// The package is here for the schema that it holds: SARIF 2.1.0 with its first corrections.
const schemaFile = import.meta.resolve('@microsoft/jest-sarif/lib/schemas/sarif-2.1.0-rtm.5.json');
const ajv = new draft04.default({ strict: false, allErrors: true, unicodeRegExp: false });
formats.default(ajv);
const isLog = ajv.compile(JSON.parse(readFileSync(new URL(schemaFile), 'utf8')));

const RESULT = {
  file: 'a.json',
  status: 'invalid',
  records: 1,
  errors: 1,
  warnings: 0,
  isComplete: true,
} as const;

function print(reporter: Reporter, found: Iterable<Finding>, reason?: string): string {
  const parts = [reporter.begin()];
  for (const one of found) parts.push(reporter.finding(one));
  const status = reason === undefined ? 'invalid' : 'unreadable';
  parts.push(reporter.fileEnd({ ...RESULT, status, ...(reason !== undefined && { reason }) }));
  parts.push(reporter.end(reason === undefined ? 1 : 2));
  return parts.join('');
}

/** The only run of a log, which has to be one by the schema. */
function runOf(text: string) {
  const log = JSON.parse(text);
  const isRight: boolean = isLog(log);
  assert.ok(isRight, ajv.errorsText(isLog.errors));
  assert.equal(log.runs.length, 1);
  return log.runs[0];
}

test('the output is a log by the schema, whatever the findings hold', () => {
  fc.assert(
    fc.property(
      fc.array(finding, { maxLength: 3 }),
      fc.option(fc.string(), { nil: undefined }),
      (found, reason) => {
        const { tool, results, invocations } = runOf(print(sarifReporter(), found, reason));
        assert.equal(results.length, found.length);
        for (const [index, result] of results.entries()) {
          assert.equal(tool.driver.rules[result.ruleIndex].id, found[index]?.code);
          const [{ physicalLocation }] = result.locations;
          assert.equal(physicalLocation.region.startLine, found[index]?.line);
        }
        assert.equal(invocations[0].executionSuccessful, reason === undefined);
      },
    ),
  );
});

test('each rule has a description, and those that judge records say where their page is', () => {
  const { rules } = runOf(print(sarifReporter(), [])).tool.driver;
  assert.equal(rules.length, Object.keys(RULES).length);
  for (const { id, help } of rules) {
    const [, page] =
      /^How to mend it: (\S+) in the package @oselya\/inventory$/.exec(help?.text ?? '') ?? [];
    assert.equal(page !== undefined, id.startsWith('lint/') || id === 'json/duplicate-key', id);
    if (page !== undefined) readFileSync(new URL(`../../../../${page}`, import.meta.url));
  }
});

test('fixes are those that --fix applies', async () => {
  const text = `[{"🏠": "я",  ${JSON.stringify({ ...VALID_RECORD, port: '443', exposure: ' Public' }).slice(1)}]`;
  const found = await Array.fromAsync(lintInventory(text, { today: readDay('2026-11-21')! }));
  const { results } = runOf(print(sarifReporter(), found));
  const fixes = results.flatMap((result: { fixes?: unknown[] }) => result.fixes ?? []);
  assert.equal(fixes.length, 2);
  let mended = Array.from(text);
  for (const { artifactChanges } of fixes.toReversed()) {
    const [{ deletedRegion, insertedContent }] = artifactChanges[0].replacements;
    const { startColumn, endColumn } = deletedRegion;
    mended = mended.toSpliced(startColumn - 1, endColumn - startColumn, insertedContent.text);
  }
  assert.equal(mended.join(''), applyFixes(text, found).text);
});

const one: Finding = {
  file: 'a.json',
  line: 1,
  column: 1,
  pointer: '/0',
  recordId: null,
  recordIndex: 0,
  code: 'schema/type',
  message: 'x',
  severity: 'error',
};

const findings = (count: number) => Array.from({ length: count }, () => one);

test('no more results are told than code scanning takes, and how many are not', () => {
  const text = print(sarifReporter(), findings(25_002));
  const { results, invocations } = runOf(text);
  assert.equal(results.length, 25_000);
  const [{ level, message }] = invocations[0].toolExecutionNotifications;
  assert.equal(level, 'warning');
  assert.match(message.text, /^2 findings left out/);
  const all = JSON.parse(print(sarifReporter(), findings(25_000)));
  assert.deepEqual(all.runs[0].invocations[0].toolExecutionNotifications, []);
});

test('the output is packed no larger than code scanning takes', () => {
  const size = 100_000;
  // Text that hardly gets smaller: each of these is its own.
  const noise = (seed: number) =>
    Array.from({ length: size / 10 }, (_, index) =>
      Math.sin(seed * size + index)
        .toFixed(18)
        .slice(-10),
    ).join('');
  function* found() {
    for (let index = 0; index < 250; index += 1) yield { ...one, message: noise(index) };
  }
  const text = print(sarifReporter(), found());
  const packed = gzipSync(text).length;
  assert.ok(packed <= 10_000_000, `${packed} bytes`);
  const { results, invocations } = runOf(text);
  assert.ok(results.length > 90 && results.length < 250, `${results.length} results`);
  const [{ message }] = invocations[0].toolExecutionNotifications;
  assert.ok(message.text.startsWith(`${250 - results.length} findings left out`));
});
