import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Finding } from '@oselya/inventory';
import fc from 'fast-check';
import { githubReporter } from '../../src/output/github.ts';
import { jsonReporter } from '../../src/output/json.ts';
import type { Reporter } from '../../src/output/reporter.ts';
import { textReporter } from '../../src/output/text.ts';
import { jsonText } from '../../src/output/visible.ts';
import { finding } from '../support/any-finding.ts';

// Controls, halves of characters, ends of lines, and what reorders or hides text, U+061C and tags among it.
const INVISIBLE = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/u;

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
        for (const line of lines) assert.doesNotMatch(line, INVISIBLE);
      }
    }),
  );
});

test('JSON that is printed has no such characters either, and means the same', () => {
  const value = { 'a\u061C': ['\u202E\u007F\u{E0041}\u00AD\u200B', 'plain'], b: 1 };
  for (const indent of [undefined, 2]) {
    const text = jsonText(value, indent);
    assert.deepEqual(JSON.parse(text), value);
    for (const line of text.split('\n')) assert.doesNotMatch(line, INVISIBLE);
  }
});

test('no name of a file makes the closing line a command of the runner', () => {
  const names = ['::error title=x::pwn.json', ' ::stop-commands::x', '##[error]pwn.json'];
  for (const file of names) {
    const line = githubReporter().fileEnd({
      file,
      status: 'valid',
      records: 0,
      errors: 0,
      warnings: 0,
      isComplete: true,
    });
    assert.doesNotMatch(line, /^\s*::|##\[/);
    assert.match(line, /^checked .*: 0 records, valid\n$/);
  }
});
