// Runs all tests, or the files of the given globs. Most unit files of a workspace share a process, because starting one
// takes most of their time. Each database file runs in a separate process, because it leaves servers and timers open.
//   --kind unit|database   only unit files or only database files
//   --soak                 the long versions of the tests that have them

import { spawn } from 'node:child_process';
import { globSync, readFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';

const ROOT = join(import.meta.dirname, '..');
const COMPILE_CACHE = join(ROOT, 'node_modules/.cache/node-compile');
const ALL_TEST_FILES = '{apps/*,packages/*,bench,scripts}/test/**/*.test.ts';
/** Files that call `getRepetitions`, and the other fault tests. */
const SOAK_FILES = [
  'apps/*/test/**/*.faults.ts',
  'apps/assistant/test/hostile/hostile.db.test.ts',
  'packages/inventory/test/{json,memory}.test.ts',
];

/** Code that would affect other files in the same process, and `fork`, which inherits the runner's flags. */
const SHARED_STATE_PATTERN =
  /^(before|after)Each\(|^before\(|process\.chdir|syncBuiltinESMExports|\bfork\(/m;

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { kind: { type: 'string' }, soak: { type: 'boolean', default: false } },
});
const isDatabase = (file: string) => file.endsWith('.db.test.ts');
const defaultGlobs = values.soak ? SOAK_FILES : [ALL_TEST_FILES];
const globs = positionals.length > 0 ? positionals : defaultGlobs;
if (values.soak) process.env['OSELYA_SOAK'] = '1';
const files = [...new Set(globs.flatMap((glob) => globSync(glob, { cwd: ROOT })))]
  .filter((file) => values.kind === undefined || isDatabase(file) === (values.kind === 'database'))
  .toSorted();
if (files.length === 0) throw new Error(`No test file matches ${globs.join(' ')}`);

function canShare(file: string): boolean {
  const isUnit = file.endsWith('.test.ts') && !isDatabase(file) && !values.soak;
  return isUnit && !SHARED_STATE_PATTERN.test(readFileSync(join(ROOT, file), 'utf8'));
}

/** Runs test files. Returns the exit status, and the output if `isShown` is false. */
function run(options: readonly string[], group: readonly string[], isShown: boolean) {
  const flags = [
    // No file uses its embedded database long enough for the optimizing WebAssembly compiler to pay off.
    '--liftoff-only',
    // With the default young generation, garbage collection would take a third of an app's startup time.
    '--min-semi-space-size=64',
    '--max-semi-space-size=128',
    '--import',
    join(import.meta.dirname, 'end-hung-file.ts'),
    '--test',
    ...options,
  ];
  const child = spawn(process.execPath, [...flags, ...group], {
    cwd: ROOT,
    stdio: ['inherit', isShown ? 'inherit' : 'pipe', 'inherit'],
    env: { NODE_COMPILE_CACHE: COMPILE_CACHE, ...process.env },
  });
  let output = '';
  child.stdout?.setEncoding('utf8').on('data', (text: string) => (output += text));
  return new Promise<{ status: number; output: string }>((resolve) => {
    child.on('close', (status) => resolve({ status: status ?? 1, output }));
  });
}

const isolatedFiles = files.filter((file) => !canShare(file));
const sharedGroups = [
  ...Map.groupBy(files.filter(canShare), (file) => file.replace(/\/test\/.*$/, '')).values(),
];

async function runShared(): Promise<number> {
  let worstStatus = 0;
  for (let group = sharedGroups.shift(); group !== undefined; group = sharedGroups.shift()) {
    const { status, output } = await run(['--test-isolation=none'], group, false);
    process.stdout.write(output);
    worstStatus = Math.max(worstStatus, status);
  }
  return worstStatus;
}

async function runIsolated(): Promise<number> {
  if (isolatedFiles.length === 0) return 0;
  // Tests wait a third of their time, so one extra process keeps the cores busy, except for fault tests, which start
  // several processes each.
  const isFaults = isolatedFiles.every((file) => file.endsWith('.faults.ts'));
  const concurrency = values.soak ? 1 : availableParallelism() + (isFaults ? 0 : 1);
  return (await run([`--test-concurrency=${concurrency}`], isolatedFiles, true)).status;
}

const sharedRuns = isolatedFiles.length === 0 ? [runShared(), runShared()] : [runShared()];
process.exitCode = Math.max(...(await Promise.all([runIsolated(), ...sharedRuns])));
