import assert from 'node:assert/strict';
import { globSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { test } from 'node:test';

const ROOT = join(import.meta.dirname, '../..');
const files = globSync('{apps,packages}/*/src/**/*.{ts,tsx}', { cwd: ROOT })
  .concat(globSync('bench/src/**/*.ts', { cwd: ROOT }))
  .toSorted();

/** Returns the imports of a file, including type-only imports: paths from the root, or package names. */
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

/** Returns the nodes on and between cycles. Repeatedly removes nodes without incoming or outgoing edges. */
function findCyclicNodes(graph: ReadonlyMap<string, readonly string[]>): string[] {
  const nodes = new Map(graph);
  for (;;) {
    const targets = new Set([...nodes.values()].flat());
    const acyclicNodes = [...nodes.keys()].filter(
      (node) => !targets.has(node) || !nodes.get(node)?.some((target) => nodes.has(target)),
    );
    if (acyclicNodes.length === 0) return [...nodes.keys()];
    for (const node of acyclicNodes) nodes.delete(node);
  }
}

/** Returns the packages that the files of each package import. A package has the name of its folder. */
function groupByPackage(graph: ReadonlyMap<string, readonly string[]>): Map<string, string[]> {
  const packages = new Map<string, string[]>();
  for (const [file, modules] of graph) {
    const name = /^(?:(?:apps|packages)\/)?([^/]+)/.exec(file)?.[1] ?? '';
    const importedNames = modules.flatMap((module) => /^@oselya\/([^/]+)/.exec(module)?.[1] ?? []);
    packages.set(name, [...(packages.get(name) ?? []), ...importedNames]);
  }
  return packages;
}

test('no import cycle exists between files or packages, including type-only imports', () => {
  assert.deepEqual(findCyclicNodes(imports), []);
  assert.deepEqual(findCyclicNodes(groupByPackage(imports)), []);
});

test('cycles are found', () => {
  const graph = { a: ['b'], b: ['c'], c: ['b', 'd'], d: ['x'], e: ['e'] };
  assert.deepEqual(findCyclicNodes(new Map(Object.entries(graph))), ['b', 'c', 'e']);
  const packageGraph = {
    'packages/db/src/index.ts': ['kysely', '@oselya/kit/retry-after'],
    'packages/kit/src/index.ts': ['packages/kit/src/http/limits.ts'],
    'packages/kit/src/http/limits.ts': ['@oselya/db'],
    'apps/cli/src/main.ts': ['@oselya/db', '@oselya/kit'],
  };
  const packages = groupByPackage(new Map(Object.entries(packageGraph)));
  assert.deepEqual(findCyclicNodes(packages), ['db', 'kit']);
});

const mayImport = (file: string, app: string) =>
  file.startsWith(`apps/${app}/`) || /^(apps\/cli|bench)\//.test(file);

test('packages import no app, and the assistant and the collector do not import each other', () => {
  const forbiddenImports = [...imports].flatMap(([file, modules]) =>
    modules
      .map((name) => /^@oselya\/(assistant|collector|cli)\b/.exec(name)?.[1])
      .filter((app) => app !== undefined && !mayImport(file, app))
      .map((app) => `${file} imports ${app}`),
  );
  assert.deepEqual(forbiddenImports, []);
});

test('only one formatter outside of the console formats prices of listings', () => {
  // This report formats counts and scores, not prices.
  const exemptFiles = new Set(['apps/cli/src/evaluate/report.ts']);
  const offendingFiles = files
    .filter((file) => /^apps\/(?!console\/)/.test(file) && !exemptFiles.has(file))
    .filter((file) => /NumberFormat|toLocaleString/.test(readFileSync(join(ROOT, file), 'utf8')));
  assert.deepEqual(offendingFiles, []);
});
