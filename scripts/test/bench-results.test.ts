import assert from 'node:assert/strict';
import { globSync, readFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { test } from 'node:test';
import { suites } from '../../bench/src/suites.ts';

const BENCH = join(import.meta.dirname, '../../bench');
const read = (path: string) => readFileSync(join(BENCH, path), 'utf8');

/** Committed result files. A file with a default name is a local result. */
const resultFiles = globSync('results/*', { cwd: BENCH }).filter(
  (path) => !/Z\.(jsonl|md)$/.test(path),
);
const names = [...new Set(resultFiles.map((path) => basename(path).replace(/\.(jsonl|md)$/, '')))];

type Run = { kind: string; suite: string; smoke: boolean; machine: { commit: string } };

test('the page of the benchmarks has each suite, and links each committed result', () => {
  const page = read('README.md');
  const sections = [...page.matchAll(/^## The suite `(\w+)`$/gm)].map(([, name = '']) => name);
  assert.deepEqual(sections.toSorted(), [...suites.keys()].toSorted());
  const links = [...page.matchAll(/\(results\/([^)]+)\.md\)/g)].map(([, name = '']) => name);
  assert.deepEqual(links.toSorted(), names.toSorted());
});

test('committed results were measured in full, on a clean commit of the repository', () => {
  assert.ok(names.length > 0);
  for (const name of names) {
    const [first = ''] = read(`results/${name}.jsonl`).split('\n', 1);
    const { kind, suite, smoke, machine } = JSON.parse(first) as Run;
    assert.deepEqual({ kind, suite, smoke }, { kind: 'run', suite: name, smoke: false });
    assert.match(machine.commit, /^[0-9a-f]{7,40}$/, `${name}: the work tree was clean`);
    const table = read(`results/${name}.md`);
    assert.ok(table.startsWith(`# ${name}\n`));
    assert.ok(table.includes(`, commit ${machine.commit}\n`), `${name}: the table is of that run`);
  }
});
