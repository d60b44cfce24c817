import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { chmodSync, existsSync, linkSync, lstatSync, readdirSync } from 'node:fs';
import { readFileSync, statSync, symlinkSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { isInventory, lintInventory, RULES } from '@oselya/inventory';
import { openFolder } from '@oselya/testing';
import fc from 'fast-check';
import { applyFixes, replaceFile } from '../src/command/lint.ts';
import { parseDay } from '../src/day.ts';
import { getRuleName } from '../src/finding.ts';
import { MAX_BASELINE_BYTES } from '../src/limits.ts';
import { ALL_RULES } from '../src/lint/lint.ts';
import { EMPTY_AUTH_VALUES } from '../src/lint/rules.ts';
import { listFieldPaths, replay, run, validate, VALID_RECORD } from './support.ts';

const folder = await openFolder();
const resolvePath = (name: string) => join(folder, name);

const today = '2026-11-20';
const lint = (text: string) => Array.fromAsync(lintInventory(text, { today }));

test('A day must exist in the calendar', () => {
  const dayPart = fc.nat(40).map((number) => String(number).padStart(2, '0'));
  const year = fc.constantFrom('0000', '0099', '0100', '1900', '2000', '2023', '2024', '9999');
  const property = fc.property(year, dayPart, dayPart, (...parts) => {
    const text = parts.join('-');
    const date = new Date(`${text}T00:00:00Z`);
    const isDay = !Number.isNaN(date.valueOf()) && date.toISOString().startsWith(text);
    assert.equal(parseDay(text), isDay && parts[0] >= '0100' ? text : null);
  });
  fc.assert(property, { numRuns: 1_000 });
});

test('Placeholders in auth are found in any form, and other texts are not', async () => {
  const words = [...EMPTY_AUTH_VALUES].flatMap((word) => {
    return [word, word.toUpperCase(), ` ${word}.`, `(${word})`, word.replaceAll(' ', '_')];
  });
  const emptyValues = new Set([...words, '', ' \t', '-', '—', '…', '?', '???', '<none>']);
  const informativeValues =
    'open|anonymous|None: a status page|nothing but OAuth|note|mTLS|відкрито'.split('|');
  const values = [...emptyValues, ...informativeValues];
  const records = values.map((auth) => ({ ...VALID_RECORD, exposure: 'public', auth }));
  const rejectedValues = (await lint(JSON.stringify(records)))
    .filter(({ code }) => code === 'lint/public-without-auth')
    .map(({ recordIndex }) => values[recordIndex ?? -1]);
  assert.deepEqual(rejectedValues, [...emptyValues]);
});

test('Fixes change only the invalid values, and not texts that have changed', async () => {
  const wrongValues = { exposure: ' VPN ', port: '443', last_reviewed: '2026/1/5' };
  const rightValues = { exposure: 'vpn', port: 443, last_reviewed: '2026-01-05' };
  const key = fc.string({ unit: 'grapheme' });
  const extraProperties = fc.dictionary(key, fc.jsonValue(), { maxKeys: 3 });
  await fc.assert(
    fc.asyncProperty(
      fc.array(extraProperties, { minLength: 1, maxLength: 4 }),
      fc.constantFrom(undefined, 2, '\t'),
      fc.constantFrom('', '\uFEFF'),
      async (extraRecords, space, byteOrderMark) => {
        const formatRecords = (values: object) => {
          const records = extraRecords.map((extra) => ({ ...extra, ...VALID_RECORD, ...values }));
          return byteOrderMark + JSON.stringify(records, null, space);
        };
        const text = formatRecords(wrongValues);
        const fixedText = formatRecords(rightValues);
        const appliedCount = 3 * extraRecords.length;
        assert.deepEqual(applyFixes(text, await lint(text)), { text: fixedText, appliedCount });
        assert.equal(applyFixes(fixedText, await lint(fixedText)).appliedCount, 0);
      },
    ),
  );
  const text = JSON.stringify([{ ...VALID_RECORD, port: '443' }]);
  const changedText = text.replace('"443"', '"80"');
  const { text: fixedText, appliedCount } = applyFixes(changedText, await lint(text));
  assert.deepEqual([fixedText, appliedCount], [changedText, 0]);
});

test('A file is replaced atomically and keeps its permissions, links and other names', async () => {
  const file = resolvePath('net.json');
  const link = resolvePath('link.json');
  const hardLink = resolvePath('old.json');
  writeFileSync(file, 'old');
  chmodSync(file, 0o666);
  symlinkSync('net.json', link);
  linkSync(file, hardLink);
  await replaceFile(link, 'new');
  assert.equal(readFileSync(file, 'utf8'), 'new');
  assert.equal(readFileSync(hardLink, 'utf8'), 'old');
  assert.equal(statSync(file).mode & 0o777, 0o666);
  assert.ok(lstatSync(link).isSymbolicLink());
  await replaceFile(resolvePath('fresh.json'), 'new');
  assert.equal(readFileSync(resolvePath('fresh.json'), 'utf8'), 'new');
  await assert.rejects(replaceFile(resolvePath('none/net.json'), 'new'), /there is no such folder/);
  assert.ok(!readdirSync(folder).some((name) => name.endsWith('.tmp')));
});

test('The option --fix rejects a pipe without reading it, and keeps the other files', async () => {
  const [file, pipe] = [resolvePath('fix.json'), resolvePath('pipe')];
  const text = JSON.stringify([{ ...VALID_RECORD, port: '443' }]);
  writeFileSync(file, text);
  // The pipe has no writer, so a read would block forever.
  execFileSync('mkfifo', [pipe]);
  const { status, stdout, stderr } = await run(['lint', '--fix', file, pipe]);
  assert.match(stderr, /--fix writes files and not .*pipe, which is a pipe or a device; save it/);
  assert.deepEqual([status, stdout, readFileSync(file, 'utf8')], [2, '', text]);
});

test('A baseline beyond its limit and a configuration that is too deep are rejected', async () => {
  const file = resolvePath('valid.json');
  const baseline = resolvePath('known.json');
  const config = resolvePath('deep.json');
  writeFileSync(file, JSON.stringify([VALID_RECORD]));
  writeFileSync(baseline, '');
  truncateSync(baseline, MAX_BASELINE_BYTES + 1);
  writeFileSync(config, '{"rules":'.repeat(100_000));
  for (const [options, message] of [
    [['--baseline', baseline], /it is larger than 256 MiB; use it for fewer files/],
    [['--config', config], /deep\.json:1:1: it is nested too deep; flatten it\n$/],
  ] as const) {
    const { status, stdout, stderr } = await run(['lint', ...options, file]);
    assert.match(stderr, message);
    assert.deepEqual([status, stdout], [2, '']);
  }
});

const ROOT = join(import.meta.dirname, '../../..');
const readDocs = (name: string) => readFileSync(join(ROOT, 'docs/inventory', name), 'utf8');

function extractCodeBlocks(page: string, language: string): string[] {
  const blockPattern = new RegExp(`^\`\`\`${language}\\n([^]*?)^\`\`\`$`, 'gm');
  return Array.from(page.matchAll(blockPattern), ([, text = '']) => text);
}

test('The commands of the guide work with the inventory of this repository', async () => {
  const page = readDocs('README.md');
  const pattern = /npx --no oselya-inventory ([^>\n]*?) *(?:>.*)?$/gm;
  const commands = extractCodeBlocks(page, 'yaml').flatMap((text) =>
    Array.from(text.matchAll(pattern), ([, words = '']) =>
      // The guide creates before.json with `git show`.
      words.replace('before.json', 'inventory/endpoints.json').split(' '),
    ),
  );
  assert.equal(commands.map(([name]) => name).join(), 'lint,lint,diff,lint');
  // Without --no, npx downloads a package of that name.
  assert.equal(page.match(/npx oselya-inventory/), null);
  const previousFolder = process.cwd();
  process.chdir(ROOT);
  try {
    for (const argv of commands) {
      // pre-commit appends the changed files to the command.
      const defaultFiles = argv.some((word) => word.endsWith('.json'))
        ? []
        : ['inventory/endpoints.json'];
      if (argv[0] === 'lint') argv.push('--today', '2026-11-22');
      const { status, stderr } = await run([...argv, ...defaultFiles]);
      assert.equal(status, 0, argv.join(' ') + stderr);
    }
  } finally {
    process.chdir(previousFolder);
  }
});

test('The inventory of this repository is valid, and its pages and sources exist', async () => {
  const file = join(ROOT, 'inventory/endpoints.json');
  const { findings, summary } = await validate({ path: file });
  assert.deepEqual([findings, summary.isComplete], [[], true]);
  const records: unknown = JSON.parse(readFileSync(file, 'utf8'));
  assert.ok(isInventory(records));
  assert.equal(new Set(records.map(({ id }) => id)).size, records.length);
  for (const { docs: docsLink, source_of_truth: source = '', url = '', ...record } of records) {
    assert.ok(existsSync(join(ROOT, docsLink.split('#')[0] ?? '')), docsLink);
    assert.ok(existsSync(join(ROOT, source)), source);
    assert.ok(url.includes(`//${record.host}:${record.port}`), url);
    assert.equal(record.exposure, 'local');
  }
});

// The reader reports repeated keys, and no configuration disables this check.
const documentedRules = [
  ...ALL_RULES.map(({ code, severity, options = {} }) => {
    return { code, severity, options, name: getRuleName(code) };
  }),
  { code: 'json/duplicate-key', severity: 'error', options: {}, name: 'duplicate-key' } as const,
];

test('Each rule has a page, and each page has a rule', () => {
  const pages = readdirSync(join(ROOT, 'docs/inventory/rules'));
  const expected = ['README.md', ...documentedRules.map(({ name }) => `${name}.md`)];
  assert.deepEqual(pages.toSorted(), expected.toSorted());
  const [, valueList = ''] =
    /no meaning: ([^]*?)\.\n/.exec(readDocs('rules/public-without-auth.md')) ?? [];
  const words = Array.from(valueList.matchAll(/`([^`]+)`/g), ([, word]) => word);
  assert.deepEqual(words, [...EMPTY_AUTH_VALUES]);
});

for (const { code, severity, options, name } of documentedRules) {
  test(`The page of ${name} has its severity, options, reason, fix and examples`, async () => {
    const page = readDocs(`rules/${name}.md`);
    const parts = page.split(/^(#{1,2} .*)$/m).map((part) => part.trim());
    const headings = parts.filter((_, index) => index % 2 === 1);
    const requiredHeadings = ['## Why', '## How to fix it', '## Example'];
    assert.equal(headings[0], `# ${name}`);
    const foundHeadings = headings.filter((heading) => requiredHeadings.includes(heading));
    assert.deepEqual(foundHeadings, requiredHeadings);
    for (const [index, heading] of headings.entries()) assert.ok(parts[2 * index + 2], heading);
    assert.match(page, severity === 'error' ? /It is an error/ : /It is a\s+warning/);
    const row = new RegExp(`^\\| \\[${name}\\]\\(${name}\\.md\\) *\\| ${severity} `, 'm');
    assert.match(readDocs('rules/README.md'), row);
    for (const option of Object.keys(options)) {
      assert.match(page, new RegExp(`^\\| \`${option}\` `, 'm'));
    }
    const [invalidExample = '', validExample = ''] = extractCodeBlocks(page, 'json');
    const codes = (await lint(invalidExample)).map((finding) => finding.code);
    assert.ok(codes.includes(code), invalidExample);
    assert.deepEqual(await lint(validExample), []);
  });
}

/** Returns the JSON blocks and table rows under a heading of output.md. */
function readSection(heading: string) {
  const [, text = ''] = readDocs('output.md').split(`\n## ${heading}\n`);
  const [sectionText = ''] = text.split('\n## ');
  const rows = sectionText.matchAll(/^\| `([^`]+)` *\| (.*?) *\|$/gm);
  return {
    blocks: extractCodeBlocks(sectionText, 'json'),
    rows: Array.from(rows, ([, name = '', description = '']): [string, string] => [
      name,
      description,
    ]),
  };
}

async function runForJson(command: string, files: Record<string, string>): Promise<unknown> {
  const fileSections = Object.entries(files).map(([name, text]) => [`file ${name}`, text] as const);
  const sections = new Map([...fileSections, ['command', `oselya inventory ${command}\n`]]);
  const transcript = await replay({ title: '', sections });
  return JSON.parse(transcript.sections.get('stdout') ?? '');
}

test('output.md has all codes, fields and examples of findings and differences', async () => {
  assert.deepEqual(readSection('Codes of findings').rows, Object.entries(RULES));
  const findings = readSection('Findings of validate and lint');
  const [inventory = '', documentedOutput = ''] = findings.blocks;
  const files = { 'inventory.json': inventory };
  const output = await runForJson('lint --format json inventory.json missing.json', files);
  assert.deepEqual(output, JSON.parse(documentedOutput));
  const ignoreProperty = { lint_ignore: [{ rule: 'missing-owner', reason: 'it has no owner' }] };
  const entry = { file: 'b.json', code: 'lint/missing-owner', record: 'gateway', pointer: '' };
  const rareOutput = await runForJson('lint --format json --baseline known.json a.json b.json', {
    'a.json': JSON.stringify([{ ...VALID_RECORD, ...ignoreProperty }]),
    'b.json': JSON.stringify([VALID_RECORD]),
    'known.json': JSON.stringify({ findings: [entry] }),
  });
  const names = [...new Set([...listFieldPaths(output), ...listFieldPaths(rareOutput)])];
  assert.deepEqual(findings.rows.map(([name]) => name).toSorted(), names.toSorted());

  const differences = readSection('Differences');
  const [olderInventory = '', newerInventory = '', expected = ''] = differences.blocks;
  const diffFiles = { 'old.json': olderInventory, 'new.json': newerInventory };
  const diff = await runForJson('diff --format json old.json new.json', diffFiles);
  assert.deepEqual(diff, JSON.parse(expected));
  const fields = listFieldPaths({ ...Object(diff), added: ['record'], removed: ['record'] });
  assert.deepEqual(differences.rows.map(([name]) => name).toSorted(), fields.toSorted());
});
