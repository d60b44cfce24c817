// Prints the tests of each row of the specifications and pitfalls: node scripts/spec-coverage.ts
// docs/reference/spec-coverage.json lists them: page → heading → part of a row's text ("*" for all rows) → names of
// tests.

import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

const ROOT = join(import.meta.dirname, '..');
const readText = (path: string) => readFileSync(join(ROOT, path), 'utf8');

type Entries = Record<string, Record<string, Record<string, string[]>>>;

/** Table row and the names of its tests. */
export type Row = { page: string; heading: string; text: string; tests: string[] };

/** Parses the table rows of a page, except the heads of the tables. */
export function parseRows(markdown: string): { heading: string; text: string }[] {
  const rows: { heading: string; text: string }[] = [];
  let heading = '';
  let isHead = true;
  for (const line of markdown.split('\n')) {
    if (line.startsWith('#')) heading = line.replace(/^#+ */, '').replaceAll('`', '');
    const isRow = line.startsWith('|');
    const isSeparator = /^\|[-| :]+\|$/.test(line);
    if (isRow && !isSeparator && !isHead) {
      rows.push({ heading, text: line.replaceAll(/\s+/g, ' ') });
    }
    isHead = isSeparator ? false : !isRow || isHead;
  }
  return rows;
}

/** Creates a function that returns the test files whose text includes the given name. */
export function createTestFinder(): (name: string) => string[] {
  const glob = '{apps,packages}/*/test/**/*.{test,faults,start,browser}.ts';
  const texts = globSync(glob, { cwd: ROOT }).map((file) => [file, readText(file)] as const);
  return (name) => texts.filter(([, text]) => text.includes(name)).map(([file]) => file);
}

/** Reads all rows with their tests, and the entries without a row. */
export function readSpecCoverage(): { rows: Row[]; unusedEntries: string[] } {
  const entries = JSON.parse(readText('docs/reference/spec-coverage.json')) as Entries;
  const rows: Row[] = [];
  const unusedEntries: string[] = [];
  for (const [page, headings] of Object.entries(entries)) {
    const pageEntries = Object.entries(headings).flatMap(([heading, texts]) =>
      Object.entries(texts).map(([text, tests]) => ({ heading, text, tests })),
    );
    if (!page.endsWith('.md')) {
      rows.push(...pageEntries.map((entry) => ({ page, ...entry })));
      continue;
    }
    const usedEntries = new Set<object>();
    for (const row of parseRows(readText(join('docs/reference', page)))) {
      const matchingEntries = pageEntries.filter(
        ({ heading, text }) => heading === row.heading && (text === '*' || row.text.includes(text)),
      );
      for (const entry of matchingEntries) usedEntries.add(entry);
      const tests = [...new Set(matchingEntries.flatMap((entry) => entry.tests))];
      rows.push({ page, ...row, tests });
    }
    unusedEntries.push(
      ...pageEntries
        .filter((entry) => !usedEntries.has(entry))
        .map(({ heading, text }) => `${page} ${heading}: ${text}`),
    );
  }
  return { rows, unusedEntries };
}

if (import.meta.main) {
  const findFiles = createTestFinder();
  for (const { page, heading, text, tests } of readSpecCoverage().rows) {
    process.stdout.write(`${page} ${heading}\n  ${text.slice(0, 110)}\n`);
    for (const test of tests) process.stdout.write(`    ${findFiles(test).join(', ')}: ${test}\n`);
  }
}
