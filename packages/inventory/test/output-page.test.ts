import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { RULES } from '@oselya/inventory';
import { PROBE_CODES } from '../src/probe/probe.ts';
import { VALID_RECORD } from './support/findings.ts';
import { secure } from './support/servers.ts';
import { replay } from './support/transcript.ts';

const page = readFileSync(new URL('../../../docs/inventory/output.md', import.meta.url), 'utf8');

/** What stands under a heading, up to the next one. */
function section(heading: string): string {
  const [, text = ''] = page.split(`\n## ${heading}\n`);
  assert.notEqual(text, '', heading);
  return text.split('\n## ')[0] ?? '';
}

/** The blocks of JSON under a heading. */
function blocks(heading: string): string[] {
  return Array.from(section(heading).matchAll(/^```json\n([^]*?)^```$/gm), ([, text = '']) => text);
}

/** The rows of the table under a heading that begin with code. */
function rows(heading: string): [name: string, text: string][] {
  const written = section(heading).matchAll(/^\| `([^`]+)` *\| (.*?) *\|$/gm);
  return Array.from(written, ([, name = '', text = '']) => [name, text]);
}

/** The fields that the table under a heading names. */
const fields = (heading: string) => rows(heading).map(([name]) => name);

/** What the command prints for files, as JSON. */
async function printed(command: string, files: Record<string, string>): Promise<unknown> {
  const given = Object.entries(files).map(([name, text]): [string, string] => [
    `file ${name}`,
    text,
  ]);
  const sections = new Map([...given, ['command', `oselya inventory ${command}\n`]]);
  const done = await replay({ title: '', sections });
  return JSON.parse(done.sections.get('stdout') ?? '');
}

/** The fields that a value has, such as `findings[].line`. */
function fieldsOf(value: unknown, path = ''): string[] {
  if (Array.isArray(value)) {
    return [...new Set(value.flatMap((item) => fieldsOf(item, `${path}[]`)))];
  }
  if (typeof value !== 'object' || value === null) return [path];
  return Object.entries(value).flatMap(([key, part]) =>
    fieldsOf(part, path === '' ? key : `${path}.${key}`),
  );
}

function assertNamed(heading: string, value: unknown): void {
  assert.deepEqual(fields(heading).toSorted(), fieldsOf(value).toSorted());
}

test('the page has all codes, and what each is about', () => {
  assert.deepEqual(rows('Codes of findings'), Object.entries(RULES));
  assert.deepEqual(fields('Codes of observations'), [...PROBE_CODES]);
});

test('findings are printed as the page shows, and it names their fields', async () => {
  const heading = 'Findings of validate and lint';
  const [inventory = '', shown = ''] = blocks(heading);
  const found = await printed('lint --format json inventory.json missing.json', {
    'inventory.json': inventory,
  });
  assert.deepEqual(found, JSON.parse(shown));
  const silent = { lint_ignore: [{ rule: 'missing-owner', reason: 'nobody runs it' }] };
  const rare = await printed('lint --format json --baseline known.json a.json b.json', {
    'a.json': JSON.stringify([{ ...VALID_RECORD, ...silent }]),
    'b.json': JSON.stringify([VALID_RECORD]),
    'known.json':
      '{"findings":[{"file":"b.json","code":"lint/missing-owner","record":"gateway","pointer":""}]}',
  });
  const names = new Set([...fieldsOf(found), ...fieldsOf(rare)]);
  assert.deepEqual(fields(heading).toSorted(), [...names].toSorted());
});

test('differences are printed as the page shows, and it names their fields', async () => {
  const [older = '', newer = '', shown = ''] = blocks('Differences');
  const found = await printed('diff --format json old.json new.json', {
    'old.json': older,
    'new.json': newer,
  });
  assert.deepEqual(found, JSON.parse(shown));
  // Whole records are no fields of their own.
  assertNamed('Differences', { ...Object(found), added: ['record'], removed: ['record'] });
});

test('observations have the fields that the page shows and names', async () => {
  const heading = 'Observations of probe';
  const { port } = await secure();
  const url = `https://localhost:${port}/`;
  const found = await printed('probe --format json inventory.json', {
    'inventory.json': JSON.stringify([{ ...VALID_RECORD, exposure: 'public', url }]),
  });
  const [shown = ''] = blocks(heading);
  assert.deepEqual(fieldsOf(JSON.parse(shown)), fieldsOf(found));
  assertNamed(heading, found);
});
