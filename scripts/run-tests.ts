// Runs all tests, or the files of the given globs. Unit files of a workspace share a process, because its start takes
// most of their time. Each database file runs in its own process, because open servers and timers remain.
//   --kind unit|database   only unit files or only database files
//   --representative       only packages/db and the first file of each other folder

import { spawn } from 'node:child_process';
import { globSync, readFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { dirname, join } from 'node:path';
import { parseArgs } from 'node:util';

const ROOT = join(import.meta.dirname, '..');
const COMPILE_CACHE = join(ROOT, 'node_modules/.cache/node-compile');
const ALL = '{apps/*,packages/*,bench,scripts}/test/**/*.test.ts';

/** Code that would affect other files of a process, and `fork`, which inherits the flags of the runner. */
const AFFECTS_OTHERS =
  /^(before|after)Each\(|^before\(|process\.chdir|syncBuiltinESMExports|\bfork\(/m;

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { kind: { type: 'string' }, representative: { type: 'boolean', default: false } },
});
const isDatabase = (file: string) => file.endsWith('.db.test.ts');
const globs = positionals.length > 0 ? positionals : [ALL];
const files = [...new Set(globs.flatMap((glob) => globSync(glob, { cwd: ROOT })))]
  .filter((file) => values.kind === undefined || isDatabase(file) === (values.kind === 'database'))
  .toSorted();
const selectedFiles = values.representative
  ? files.filter(
      (file, index) =>
        file.startsWith('packages/db/') ||
        files.findIndex((other) => dirname(other) === dirname(file)) === index,
    )
  : files;
if (selectedFiles.length === 0) throw new Error(`No test file fits ${globs.join(' ')}`);

function canShare(file: string): boolean {
  const isUnit = file.endsWith('.test.ts') && !isDatabase(file);
  return isUnit && !AFFECTS_OTHERS.test(readFileSync(join(ROOT, file), 'utf8'));
}

/** Runs files. Returns the exit status, and the output unless it is shown immediately. */
function run(options: readonly string[], group: readonly string[], isShown: boolean) {
  const flags = [
    // No file uses its embedded database long enough for the optimizing compiler to pay off.
    '--liftoff-only',
    // Collecting the default young generation would take a third of the start of an app.
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

const isolated = selectedFiles.filter((file) => !canShare(file));
const shared = [
  ...Map.groupBy(selectedFiles.filter(canShare), (file) =>
    file.replace(/\/test\/.*$/, ''),
  ).values(),
];

async function runShared(): Promise<number> {
  let worst = 0;
  for (let group = shared.shift(); group !== undefined; group = shared.shift()) {
    const { status, output } = await run(['--test-isolation=none'], group, false);
    process.stdout.write(output);
    worst = Math.max(worst, status);
  }
  return worst;
}

async function runIsolated(): Promise<number> {
  if (isolated.length === 0) return 0;
  const concurrency = `--test-concurrency=${availableParallelism()}`;
  return (await run([concurrency], isolated, true)).status;
}

// Test files are idle for a third of their time, so the runner uses one process more than there are cores.
const others = isolated.length === 0 ? [runShared(), runShared()] : [runShared()];
process.exitCode = Math.max(...(await Promise.all([runIsolated(), ...others])));
