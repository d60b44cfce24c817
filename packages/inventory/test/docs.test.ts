import assert from 'node:assert/strict';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { isInventory, lintInventory, RULES } from '@oselya/inventory';
import { getRuleName } from '../src/finding.ts';
import { ALL_RULES } from '../src/lint/lint.ts';
import { EMPTY_AUTH_VALUES } from '../src/lint/rules.ts';
import { fieldsOf, validate, VALID_RECORD } from './support/records.ts';
import { replay, run } from './support/transcript.ts';

const ROOT = join(import.meta.dirname, '../../..');
const docs = (name: string) => readFileSync(join(ROOT, 'docs/inventory', name), 'utf8');

function blocks(page: string, language: string): string[] {
  const fenced = new RegExp(`^\`\`\`${language}\\n([^]*?)^\`\`\`$`, 'gm');
  return Array.from(page.matchAll(fenced), ([, text = '']) => text);
}

test('The commands of the guide work with the inventory of this repository', async () => {
  const page = docs('README.md');
  const commands = blocks(page, 'yaml').flatMap((text) =>
    Array.from(
      text.matchAll(/npx --no oselya-inventory ([^>\n]*?) *(?:>.*)?$/gm),
      ([, words = '']) =>
        // `git show` writes another version of the same file there.
        words.replace('before.json', 'inventory/endpoints.json').split(' '),
    ),
  );
  assert.deepEqual(
    commands.map(([name]) => name),
    ['lint', 'lint', 'diff', 'lint'],
  );
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
  const path = join(ROOT, 'inventory/endpoints.json');
  const { findings, summary } = await validate({ path });
  assert.deepEqual([findings, summary.isComplete], [[], true]);
  const records: unknown = JSON.parse(readFileSync(path, 'utf8'));
  assert.ok(isInventory(records));
  assert.equal(new Set(records.map(({ id }) => id)).size, records.length);
  for (const {
    docs: link,
    source_of_truth: source = '',
    url = '',
    host,
    port,
    exposure,
  } of records) {
    assert.ok(existsSync(join(ROOT, link.split('#')[0] ?? '')), link);
    assert.ok(existsSync(join(ROOT, source)), source);
    assert.ok(url.includes(`//${host}:${port}`), url);
    assert.equal(exposure, 'local');
  }
});

// The reader finds repeated keys, and no configuration turns them off.
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

const lint = (text: string) => Array.fromAsync(lintInventory(text, { today: '2026-11-20' }));

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
    const [bad = '', good = ''] = blocks(page, 'json');
    assert.ok(
      (await lint(bad)).some((finding) => finding.code === code),
      bad,
    );
    assert.deepEqual(await lint(good), []);
  });
}

/** Returns the JSON blocks and the table rows under a heading of output.md. */
function section(heading: string) {
  const [, text = ''] = docs('output.md').split(`\n## ${heading}\n`);
  const [own = ''] = text.split('\n## ');
  const rows = own.matchAll(/^\| `([^`]+)` *\| (.*?) *\|$/gm);
  return {
    blocks: blocks(own, 'json'),
    rows: Array.from(rows, ([, name = '', about = '']): [string, string] => [name, about]),
  };
}

/** Runs a command on files and returns its JSON. */
async function printed(command: string, files: Record<string, string>): Promise<unknown> {
  const given = Object.entries(files).map(([name, text]): [string, string] => [
    `file ${name}`,
    text,
  ]);
  const sections = new Map([...given, ['command', `oselya inventory ${command}\n`]]);
  const done = await replay({ title: '', sections });
  return JSON.parse(done.sections.get('stdout') ?? '');
}

test('output.md has all codes, fields and examples of findings and differences', async () => {
  assert.deepEqual(section('Codes of findings').rows, Object.entries(RULES));
  const findings = section('Findings of validate and lint');
  const [inventory = '', shown = ''] = findings.blocks;
  const found = await printed('lint --format json inventory.json missing.json', {
    'inventory.json': inventory,
  });
  assert.deepEqual(found, JSON.parse(shown));
  const silenced = { lint_ignore: [{ rule: 'missing-owner', reason: 'it has no owner' }] };
  const rare = await printed('lint --format json --baseline known.json a.json b.json', {
    'a.json': JSON.stringify([{ ...VALID_RECORD, ...silenced }]),
    'b.json': JSON.stringify([VALID_RECORD]),
    'known.json':
      '{"findings":[{"file":"b.json","code":"lint/missing-owner","record":"gateway","pointer":""}]}',
  });
  const names = [...new Set([...fieldsOf(found), ...fieldsOf(rare)])];
  assert.deepEqual(findings.rows.map(([name]) => name).toSorted(), names.toSorted());

  const differences = section('Differences');
  const [older = '', newer = '', expected = ''] = differences.blocks;
  const files = { 'old.json': older, 'new.json': newer };
  const diff = await printed('diff --format json old.json new.json', files);
  assert.deepEqual(diff, JSON.parse(expected));
  const fields = fieldsOf({ ...Object(diff), added: ['record'], removed: ['record'] });
  assert.deepEqual(differences.rows.map(([name]) => name).toSorted(), fields.toSorted());
});
