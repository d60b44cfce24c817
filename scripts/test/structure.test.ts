import assert from 'node:assert/strict';
import { globSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { test } from 'node:test';

const ROOT = join(import.meta.dirname, '../..');
const files = globSync('{apps,packages}/*/src/**/*.{ts,tsx}', { cwd: ROOT })
  .concat(globSync('bench/src/**/*.ts', { cwd: ROOT }))
  .toSorted();

/** Returns the modules that a file imports, also for types only: paths from the root, or names of packages. */
function listImports(file: string): string[] {
  const text = readFileSync(join(ROOT, file), 'utf8');
  const specifiers = [...text.matchAll(/(?:from|import\(?)\s*'([^']+)'/g)].map(
    ([, specifier = '']) => specifier,
  );
  return specifiers.map((specifier) =>
    specifier.startsWith('.') ? join(dirname(file), specifier) : specifier,
  );
}

const imports = new Map(files.map((file) => [file, listImports(file)]));

/** Returns the groups of nodes that reach one another, each sorted: Tarjan's strongly connected components. */
function findCycles(graph: ReadonlyMap<string, readonly string[]>): string[][] {
  const index = new Map<string, number>();
  const lowestIndexes = new Map<string, number>();
  const nodeStack: string[] = [];
  const cycles: string[][] = [];
  const visit = (node: string): number => {
    const nodeIndex = index.size;
    index.set(node, nodeIndex);
    lowestIndexes.set(node, nodeIndex);
    nodeStack.push(node);
    for (const neighbor of graph.get(node) ?? []) {
      if (!graph.has(neighbor)) continue;
      const reachableIndex = index.has(neighbor)
        ? nodeStack.includes(neighbor)
          ? index.get(neighbor)
          : nodeIndex
        : visit(neighbor);
      lowestIndexes.set(
        node,
        Math.min(lowestIndexes.get(node) ?? nodeIndex, reachableIndex ?? nodeIndex),
      );
    }
    if (lowestIndexes.get(node) === nodeIndex) {
      const cycleNodes = nodeStack.splice(nodeStack.indexOf(node));
      const isCycle = cycleNodes.length > 1 || graph.get(node)?.includes(node) === true;
      if (isCycle) cycles.push(cycleNodes.toSorted());
    }
    return lowestIndexes.get(node) ?? nodeIndex;
  };
  for (const node of graph.keys()) if (!index.has(node)) visit(node);
  return cycles;
}

test('no file imports itself through others, not even for types', () => {
  const cycles = findCycles(imports).map((cycle) => cycle.join(' '));
  assert.deepEqual(cycles, []);
});

test('cycles are found', () => {
  const graph = { a: ['b'], b: ['c'], c: ['b', 'd'], d: ['x'], e: ['e'] };
  assert.deepEqual(findCycles(new Map(Object.entries(graph))), [['b', 'c'], ['e']]);
});

const mayImport = (file: string, app: string) =>
  file.startsWith(`apps/${app}/`) || /^(apps\/cli|bench)\//.test(file);

test('packages import no app, and the assistant and the collector not one another', () => {
  const forbiddenImports = [...imports].flatMap(([file, modules]) =>
    modules
      .map((name) => /^@oselya\/(assistant|collector|cli)\b/.exec(name)?.[1])
      .filter((app) => app !== undefined && !mayImport(file, app))
      .map((app) => `${file} imports ${app}`),
  );
  assert.deepEqual(forbiddenImports, []);
});

test('prices of listings are written by one formatter', () => {
  // This report formats counts and scores, not prices.
  const exemptFiles = new Set(['apps/cli/src/evaluate/report.ts']);
  const offendingFiles = files
    .filter((file) => file.startsWith('apps/') && !exemptFiles.has(file))
    .filter((file) => /NumberFormat|toLocaleString/.test(readFileSync(join(ROOT, file), 'utf8')));
  assert.deepEqual(offendingFiles, []);
});
