import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { chmodSync, existsSync, linkSync, lstatSync, mkdtempSync, readdirSync } from 'node:fs';
import { readFileSync, rmSync, statSync, symlinkSync, truncateSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { isInventory, lintInventory, RULES } from '@oselya/inventory';
import fc from 'fast-check';
import { applyFixes, replaceFile } from '../src/command/lint.ts';
import { parseDay } from '../src/day.ts';
import { getRuleName } from '../src/finding.ts';
import { MAX_BASELINE_BYTES } from '../src/limits.ts';
import { Baseline, parseBaseline } from '../src/lint/baseline.ts';
import { ALL_RULES } from '../src/lint/lint.ts';
import { EMPTY_AUTH_VALUES } from '../src/lint/rules.ts';
import { listFieldPaths, replay, run, validate, VALID_RECORD } from './support.ts';

const folder = mkdtempSync(join(tmpdir(), 'inventory-lint-'));
after(() => rmSync(folder, { recursive: true }));
const path = (name: string) => join(folder, name);

const today = '2026-11-20';
const lint = (text: string) => Array.fromAsync(lintInventory(text, { today }));
const lintRecords = (records: object[], baseline?: Baseline) => {
  const ignores = baseline && { ignores: baseline.has.bind(baseline) };
  return Array.fromAsync(lintInventory(JSON.stringify(records), { today, ...ignores }));
};

test('Days are days of the calendar', () => {
  const part = fc.nat(40).map((number) => String(number).padStart(2, '0'));
  const year = fc.constantFrom('0000', '0099', '0100', '1900', '2000', '2023', '2024', '9999');
  fc.assert(
    fc.property(year, part, part, (...parts) => {
      const text = parts.join('-');
      const moment = new Date(`${text}T00:00:00Z`);
      const isDay = !Number.isNaN(moment.valueOf()) && moment.toISOString().startsWith(text);
      assert.equal(parseDay(text), isDay && parts[0] >= '0100' ? text : null);
    }),
    { numRuns: 1_000 },
  );
});

test('Placeholders in auth are found in any form, and other texts are not', async () => {
  const words = [...EMPTY_AUTH_VALUES].flatMap((word) => {
    return [word, word.toUpperCase(), ` ${word}.`, `(${word})`, word.replaceAll(' ', '_')];
  });
  const empty = [...new Set([...words, '', ' \t', '-', '—', '…', '?', '???', 'n.a.', '<none>'])];
  const texts = ['Open to everybody: a status page', 'open', 'anonymous', 'None: a status page'];
  const meaningful = [...texts, 'nothing but OAuth', 'note', 'mTLS', 'відкрито'];
  const values = [...empty, ...meaningful];
  const findings = await lintRecords(
    values.map((auth) => ({ ...VALID_RECORD, exposure: 'public', auth })),
  );
  const found = findings.filter(({ code }) => code === 'lint/public-without-auth');
  assert.deepEqual(
    found.map(({ recordIndex }) => values[recordIndex ?? -1]),
    empty,
  );
});

test('A baseline counts equal findings, and never has invalid JSON', async () => {
  const one = { ...VALID_RECORD, port: 0 };
  const written = new Baseline('.');
  for (const finding of await lintRecords([one, one])) written.add(finding);
  const read = () => parseBaseline(written.toString(), 'known.json');
  const [same, more, fewer] = [read(), read(), read()];
  assert.deepEqual([await lintRecords([one, one], same), same.countStale(['<input>'])], [[], 0]);
  const left = await lintRecords([one, one, one], more);
  assert.ok(left.some(({ code, recordIndex }) => code === 'lint/port-range' && recordIndex === 2));
  await lintRecords([one], fewer);
  assert.ok(fewer.countStale(['<input>']) > 0);
  assert.equal(fewer.countStale(['other.json']), 0);
  const [invalid] = await lint('[{"id": }]');
  assert.ok(invalid);
  assert.equal(written.add(invalid), false);
});

test('Fixes change only the invalid values, and not texts that have changed', async () => {
  const wrong = { exposure: ' VPN ', port: '443', last_reviewed: '2026/1/5' };
  const right = { exposure: 'vpn', port: 443, last_reviewed: '2026-01-05' };
  const extra = fc.dictionary(fc.string({ unit: 'grapheme' }), fc.jsonValue(), { maxKeys: 3 });
  await fc.assert(
    fc.asyncProperty(
      fc.array(extra, { minLength: 1, maxLength: 4 }),
      fc.constantFrom(undefined, 2, '\t'),
      fc.constantFrom('', '\uFEFF'),
      async (extras, space, mark) => {
        const write = (values: object) => {
          const records = extras.map((more) => ({ ...more, ...VALID_RECORD, ...values }));
          return mark + JSON.stringify(records, null, space);
        };
        const text = write(wrong);
        const fixed = applyFixes(text, await lint(text));
        assert.deepEqual(fixed, { text: write(right), applied: 3 * extras.length });
        assert.equal(applyFixes(fixed.text, await lint(fixed.text)).applied, 0);
      },
    ),
  );
  const text = JSON.stringify([{ ...VALID_RECORD, port: '443' }]);
  const other = text.replace('"443"', '"80"');
  assert.deepEqual(applyFixes(other, await lint(text)), { text: other, applied: 0 });
});

test('A file is replaced atomically and keeps its permissions, links and other names', async () => {
  const [file, link, hardLink] = [path('net.json'), path('link.json'), path('old.json')];
  writeFileSync(file, 'old');
  chmodSync(file, 0o666);
  symlinkSync('net.json', link);
  linkSync(file, hardLink);
  await replaceFile(link, 'new');
  assert.deepEqual(
    [file, hardLink].map((name) => readFileSync(name, 'utf8')),
    ['new', 'old'],
  );
  assert.equal(statSync(file).mode & 0o777, 0o666);
  assert.ok(lstatSync(link).isSymbolicLink());
  await replaceFile(path('fresh.json'), 'new');
  assert.equal(readFileSync(path('fresh.json'), 'utf8'), 'new');
  await assert.rejects(replaceFile(path('none/net.json'), 'new'), /there is no such folder/);
  assert.ok(!readdirSync(folder).some((name) => name.endsWith('.tmp')));
});

test('The option --fix rejects a pipe without reading it, and keeps the other files', async () => {
  const [file, pipe] = [path('fix.json'), path('pipe')];
  const text = JSON.stringify([{ ...VALID_RECORD, port: '443' }]);
  writeFileSync(file, text);
  // The pipe has no writer, so a read would block forever.
  execFileSync('mkfifo', [pipe]);
  const { status, stdout, stderr } = await run(['lint', '--fix', file, pipe]);
  assert.match(stderr, /--fix writes files and not .*pipe, which is a pipe or a device; save it/);
  assert.deepEqual([status, stdout, readFileSync(file, 'utf8')], [2, '', text]);
});

test('A baseline beyond its limit and a configuration that is too deep are rejected', async () => {
  const [file, baseline, config] = [path('valid.json'), path('known.json'), path('deep.json')];
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
const docs = (name: string) => readFileSync(join(ROOT, 'docs/inventory', name), 'utf8');

function extractCodeBlocks(page: string, language: string): string[] {
  const fenced = new RegExp(`^\`\`\`${language}\\n([^]*?)^\`\`\`$`, 'gm');
  return Array.from(page.matchAll(fenced), ([, text = '']) => text);
}

test('The commands of the guide work with the inventory of this repository', async () => {
  const page = docs('README.md');
  const pattern = /npx --no oselya-inventory ([^>\n]*?) *(?:>.*)?$/gm;
  const commands = extractCodeBlocks(page, 'yaml').flatMap((text) =>
    Array.from(text.matchAll(pattern), ([, words = '']) =>
      // `git show` writes another version of the same file there.
      words.replace('before.json', 'inventory/endpoints.json').split(' '),
    ),
  );
  assert.equal(commands.map(([name]) => name).join(), 'lint,lint,diff,lint');
  // Without --no, npx would fetch a package of the same name.
  assert.equal(page.match(/npx oselya-inventory/), null);
  const home = process.cwd();
  process.chdir(ROOT);
  try {
    for (const argv of commands) {
      // A hook receives its files after the command.
      const named = argv.some((word) => word.endsWith('.json')) ? [] : ['inventory/endpoints.json'];
      if (argv[0] === 'lint') argv.push('--today', '2026-11-22');
      const { status, stderr } = await run([...argv, ...named]);
      assert.equal(status, 0, argv.join(' ') + stderr);
    }
  } finally {
    process.chdir(home);
  }
});

test('The inventory of this repository is valid, and its pages and sources exist', async () => {
  const file = join(ROOT, 'inventory/endpoints.json');
  const { findings, summary } = await validate({ path: file });
  assert.deepEqual([findings, summary.isComplete], [[], true]);
  const records: unknown = JSON.parse(readFileSync(file, 'utf8'));
  assert.ok(isInventory(records));
  assert.equal(new Set(records.map(({ id }) => id)).size, records.length);
  for (const { docs: link, source_of_truth: source = '', url = '', ...rest } of records) {
    assert.ok(existsSync(join(ROOT, link.split('#')[0] ?? '')), link);
    assert.ok(existsSync(join(ROOT, source)), source);
    assert.ok(url.includes(`//${rest.host}:${rest.port}`), url);
    assert.equal(rest.exposure, 'local');
  }
});

// The reader reports repeated keys. No configuration disables this check.
const documented = [
  ...ALL_RULES.map(({ code, severity, options = {} }) => {
    return { code, severity, options, name: getRuleName(code) };
  }),
  { code: 'json/duplicate-key', severity: 'error', options: {}, name: 'duplicate-key' } as const,
];

test('Each rule has a page, and each page a rule', () => {
  const pages = readdirSync(join(ROOT, 'docs/inventory/rules'));
  const expected = ['README.md', ...documented.map(({ name }) => `${name}.md`)];
  assert.deepEqual(pages.toSorted(), expected.toSorted());
  const [, list = ''] = /no meaning: ([^]*?)\.\n/.exec(docs('rules/public-without-auth.md')) ?? [];
  const words = Array.from(list.matchAll(/`([^`]+)`/g), ([, word]) => word);
  assert.deepEqual(words, [...EMPTY_AUTH_VALUES]);
});

for (const { code, severity, options, name } of documented) {
  test(`The page of ${name} has its severity, options, reason, fix and examples`, async () => {
    const page = docs(`rules/${name}.md`);
    const parts = page.split(/^(#{1,2} .*)$/m).map((part) => part.trim());
    const headings = parts.filter((_, index) => index % 2 === 1);
    const required = ['## Why', '## How to fix it', '## Example'];
    assert.equal(headings[0], `# ${name}`);
    assert.deepEqual(
      headings.filter((heading) => required.includes(heading)),
      required,
    );
    for (const [index, heading] of headings.entries()) assert.ok(parts[2 * index + 2], heading);
    assert.match(page, severity === 'error' ? /It is an error/ : /It is a\s+warning/);
    const row = new RegExp(`^\\| \\[${name}\\]\\(${name}\\.md\\) *\\| ${severity} `, 'm');
    assert.match(docs('rules/README.md'), row);
    for (const option of Object.keys(options)) {
      assert.match(page, new RegExp(`^\\| \`${option}\` `, 'm'));
    }
    const [bad = '', good = ''] = extractCodeBlocks(page, 'json');
    const codes = (await lint(bad)).map((finding) => finding.code);
    assert.ok(codes.includes(code), bad);
    assert.deepEqual(await lint(good), []);
  });
}

/** Returns the JSON blocks and the table rows under a heading of output.md. */
function readSection(heading: string) {
  const [, text = ''] = docs('output.md').split(`\n## ${heading}\n`);
  const [own = ''] = text.split('\n## ');
  const rows = own.matchAll(/^\| `([^`]+)` *\| (.*?) *\|$/gm);
  return {
    blocks: extractCodeBlocks(own, 'json'),
    rows: Array.from(rows, ([, name = '', about = '']): [string, string] => [name, about]),
  };
}

/** Runs a command on files and returns its JSON. */
async function runForJson(command: string, files: Record<string, string>): Promise<unknown> {
  const given = Object.entries(files).map(([name, text]) => [`file ${name}`, text] as const);
  const sections = new Map([...given, ['command', `oselya inventory ${command}\n`]]);
  const done = await replay({ title: '', sections });
  return JSON.parse(done.sections.get('stdout') ?? '');
}

test('output.md has all codes, fields and examples of findings and differences', async () => {
  assert.deepEqual(readSection('Codes of findings').rows, Object.entries(RULES));
  const findings = readSection('Findings of validate and lint');
  const [inventory = '', shown = ''] = findings.blocks;
  const files = { 'inventory.json': inventory };
  const found = await runForJson('lint --format json inventory.json missing.json', files);
  assert.deepEqual(found, JSON.parse(shown));
  const silenced = { lint_ignore: [{ rule: 'missing-owner', reason: 'it has no owner' }] };
  const entry = { file: 'b.json', code: 'lint/missing-owner', record: 'gateway', pointer: '' };
  const rare = await runForJson('lint --format json --baseline known.json a.json b.json', {
    'a.json': JSON.stringify([{ ...VALID_RECORD, ...silenced }]),
    'b.json': JSON.stringify([VALID_RECORD]),
    'known.json': JSON.stringify({ findings: [entry] }),
  });
  const names = [...new Set([...listFieldPaths(found), ...listFieldPaths(rare)])];
  assert.deepEqual(findings.rows.map(([name]) => name).toSorted(), names.toSorted());

  const differences = readSection('Differences');
  const [older = '', newer = '', expected = ''] = differences.blocks;
  const pair = { 'old.json': older, 'new.json': newer };
  const diff = await runForJson('diff --format json old.json new.json', pair);
  assert.deepEqual(diff, JSON.parse(expected));
  const fields = listFieldPaths({ ...Object(diff), added: ['record'], removed: ['record'] });
  assert.deepEqual(differences.rows.map(([name]) => name).toSorted(), fields.toSorted());
});
