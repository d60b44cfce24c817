import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { validateInventory } from '@oselya/inventory';
import { countErrors, findDifference } from '../../src/inventory/sample.ts';
import {
  type Document,
  generateDocument,
  expectedFindings,
} from '../../src/inventory/documents.ts';

const folder = await mkdtemp(join(tmpdir(), 'oselya-bench-test-'));
after(() => rm(folder, { recursive: true }));

const getText = (document: Document) => [...generateDocument(document)].join('');

test('equal documents are equal in every byte, and have the requested number of records', () => {
  for (const records of [1, 499, 500, 501]) {
    const document: Document = { records, faulty: 0.5, format: 'json' };
    assert.equal(getText(document), getText({ ...document }));
    assert.equal(JSON.parse(getText(document)).length, records);
    assert.equal(getText({ ...document, format: 'jsonl' }).split('\n').length, records + 1);
  }
});

test('the validator reports exactly the expected findings', async () => {
  for (const format of ['json', 'jsonl'] as const) {
    for (const faulty of [0, 0.1, 1]) {
      const document: Document = { records: 300, faulty, format };
      const findings = [];
      for await (const finding of validateInventory(getText(document), { format })) {
        const { code, pointer, line, column } = finding;
        findings.push({ code, pointer, line, column });
      }
      assert.deepEqual(findings, [...expectedFindings(document)]);
      assert.ok(faulty === 0 ? findings.length === 0 : findings.length > 5);
    }
  }
});

const DOCUMENT: Document = { records: 40, faulty: 0.2, format: 'json' };
const expected = [...expectedFindings(DOCUMENT)];

/** Writes findings in the command's format, and compares them with the expected findings of the document. */
async function compareFindings(findings: object[], records = DOCUMENT.records) {
  const output = join(folder, 'output.txt');
  const lines = findings.map((finding) => JSON.stringify({ file: 'x', ...finding }));
  const fileEntry = JSON.stringify({ file: 'x', status: 'invalid', records, isComplete: true });
  await writeFile(output, `{"findings":[\n${lines.join(',\n')}\n],"files":[\n${fileEntry}\n]}\n`);
  return findDifference(output, DOCUMENT);
}

test('complete and correct findings have no difference', async () => {
  assert.ok(expected.length > 2);
  assert.equal(await compareFindings(expected), undefined);
});

test('a missing, surplus or misplaced finding is reported, and so is an unread record', async () => {
  const [first, ...laterFindings] = expected;
  assert.match((await compareFindings(laterFindings)) ?? '', /^expected .+, found /);
  assert.match((await compareFindings(expected.slice(0, -1))) ?? '', /found undefined$/);
  assert.match((await compareFindings([...expected, { ...first }])) ?? '', /^expected undefined/);
  const moved = { ...first, column: (first?.column ?? 0) + 1 };
  assert.match((await compareFindings([moved, ...laterFindings])) ?? '', /"column"/);
  assert.equal(await compareFindings(expected, 39), 'read 39 of 40 records');
});

test('errors are counted by lines with the error mark', async () => {
  const output = join(folder, 'errors.txt');
  await writeFile(output, 'a.json:1:2 - one\na.json:1:3 - two\na.json invalid\n');
  assert.equal(await countErrors(output, ' - '), 2);
});
