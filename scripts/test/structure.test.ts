import assert from 'node:assert/strict';
import { globSync, readFileSync } from 'node:fs';
import { dirname, join, relative, sep } from 'node:path';
import { test } from 'node:test';

// What keeps the rooms apart: whoever reads one should not have to read all of them.

const ROOT = join(import.meta.dirname, '../..');
const workspaces = globSync('{packages,apps}/*', { cwd: ROOT }).concat('bench').toSorted();

/** What the files of a workspace import: paths for files, the names of packages as they are written. */
function* importsOf(workspace: string): Generator<{ from: string; to: string }> {
  const folder = join(ROOT, workspace, 'src');
  for (const file of globSync('**/*.ts', { cwd: folder })) {
    const text = readFileSync(join(folder, file), 'utf8');
    for (const [, to = ''] of text.matchAll(/(?:from|import\(?)\s*'([^']+)'/g)) {
      const isFile = to.startsWith('.');
      yield { from: file, to: isFile ? join(dirname(file), to) : to };
    }
  }
}

/** The folder of a file just below `src`, or the file itself where it lies there. */
const roomOf = (file: string) => file.split(sep)[0] ?? file;

/**
 * Leaves out, again and again, whatever needs nothing of what is left: the rest is in circles, or needs one.
 */
function inCircles(needs: ReadonlyMap<string, ReadonlySet<string>>): string[] {
  const left = new Map(needs);
  for (;;) {
    const free = [...left].filter(([, needed]) => ![...needed].some((room) => left.has(room)));
    if (free.length === 0) return [...left.keys()].toSorted();
    for (const [room] of free) left.delete(room);
  }
}

for (const workspace of workspaces) {
  test(`the folders of ${workspace} need one another in no circle`, () => {
    const needs = new Map<string, Set<string>>();
    for (const { from, to } of importsOf(workspace)) {
      if (!to.endsWith('.ts') || roomOf(from) === roomOf(to)) continue;
      needs.set(roomOf(from), (needs.get(roomOf(from)) ?? new Set()).add(roomOf(to)));
    }
    assert.deepEqual(inCircles(needs), []);
  });
}

test('circles are found', () => {
  const needs = { a: ['b'], b: ['c'], c: ['b'], d: [] };
  const graph = new Map(Object.entries(needs).map(([room, needed]) => [room, new Set(needed)]));
  assert.deepEqual(inCircles(graph), ['a', 'b', 'c']);
});

test('packages know no app, and the assistant and the collector not one another', () => {
  const apps = globSync('apps/*', { cwd: ROOT }).map((path) => `@oselya/${relative('apps', path)}`);
  const allowed: Record<string, readonly string[]> = {
    'apps/cli': ['@oselya/assistant', '@oselya/collector'],
    bench: ['@oselya/assistant', '@oselya/collector'],
  };
  const wrong = workspaces.flatMap((workspace) =>
    [...importsOf(workspace)].filter(({ to }) => {
      const app = apps.find((name) => to === name || to.startsWith(`${name}/`));
      return app !== undefined && !(allowed[workspace] ?? []).includes(app);
    }),
  );
  assert.deepEqual(wrong, []);
});

test('prices of listings are written by one formatter', () => {
  // The command's report of an evaluation, and the inventory, show other numbers.
  const others = new Set(['apps/cli/src/evaluate/report.ts', 'packages/kit/src/listing-text.ts']);
  const own = globSync('apps/*/src/**/*.ts', { cwd: ROOT })
    .filter((file) => !others.has(file))
    .filter((file) => /NumberFormat|toLocaleString/.test(readFileSync(join(ROOT, file), 'utf8')));
  assert.deepEqual(own, []);
});
