import assert from 'node:assert/strict';
import { globSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { test } from 'node:test';

const ROOT = join(import.meta.dirname, '../..');
const files = globSync('{apps,packages}/*/src/**/*.{ts,tsx}', { cwd: ROOT })
  .concat(globSync('bench/src/**/*.ts', { cwd: ROOT }))
  .toSorted();

/** Returns the modules that a file imports, also for types only: paths from the root, or names of packages. */
function importsOf(file: string): string[] {
  const text = readFileSync(join(ROOT, file), 'utf8');
  const specifiers = [...text.matchAll(/(?:from|import\(?)\s*'([^']+)'/g)].map(([, to = '']) => to);
  return specifiers.map((to) => (to.startsWith('.') ? join(dirname(file), to) : to));
}

const imports = new Map(files.map((file) => [file, importsOf(file)]));

/** Returns the groups of nodes that reach one another, each sorted: Tarjan's strongly connected components. */
function cyclesOf(graph: ReadonlyMap<string, readonly string[]>): string[][] {
  const index = new Map<string, number>();
  const low = new Map<string, number>();
  const stack: string[] = [];
  const cycles: string[][] = [];
  const visit = (node: string): number => {
    const own = index.size;
    index.set(node, own);
    low.set(node, own);
    stack.push(node);
    for (const next of graph.get(node) ?? []) {
      if (!graph.has(next)) continue;
      const reached = index.has(next)
        ? stack.includes(next)
          ? index.get(next)
          : own
        : visit(next);
      low.set(node, Math.min(low.get(node) ?? own, reached ?? own));
    }
    if (low.get(node) === own) {
      const component = stack.splice(stack.indexOf(node));
      const isCycle = component.length > 1 || graph.get(node)?.includes(node) === true;
      if (isCycle) cycles.push(component.toSorted());
    }
    return low.get(node) ?? own;
  };
  for (const node of graph.keys()) if (!index.has(node)) visit(node);
  return cycles;
}

test('no file imports itself through others, not even for types', () => {
  const found = cyclesOf(imports).map((cycle) => cycle.join(' '));
  assert.deepEqual(found, []);
});

test('cycles are found', () => {
  const graph = { a: ['b'], b: ['c'], c: ['b', 'd'], d: ['x'], e: ['e'] };
  assert.deepEqual(cyclesOf(new Map(Object.entries(graph))), [['b', 'c'], ['e']]);
});

const mayImport = (file: string, app: string) =>
  file.startsWith(`apps/${app}/`) || /^(apps\/cli|bench)\//.test(file);

test('packages import no app, and the assistant and the collector not one another', () => {
  const wrong = [...imports].flatMap(([file, modules]) =>
    modules
      .map((name) => /^@oselya\/(assistant|collector|cli)\b/.exec(name)?.[1])
      .filter((app) => app !== undefined && !mayImport(file, app))
      .map((app) => `${file} imports ${app}`),
  );
  assert.deepEqual(wrong, []);
});

test('prices of listings are written by one formatter', () => {
  // This report formats counts and scores, not prices.
  const others = new Set(['apps/cli/src/evaluate/report.ts']);
  const own = files
    .filter((file) => file.startsWith('apps/') && !others.has(file))
    .filter((file) => /NumberFormat|toLocaleString/.test(readFileSync(join(ROOT, file), 'utf8')));
  assert.deepEqual(own, []);
});
