import { spawnSync } from 'node:child_process';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';

// Runs the test files that its arguments name. Node leaves one core free, which on a machine with two
// is half of it, and most files wait for a database to start. Each file is a process of its own, which
// need not compile again what the one before it has.
const CACHE = join(import.meta.dirname, '../node_modules/.cache/node-compile');
const GUARD = join(import.meta.dirname, 'end-hung-file.ts');
const concurrency = Math.max(2, availableParallelism() - 1);
const { status } = spawnSync(
  process.execPath,
  ['--import', GUARD, '--test', `--test-concurrency=${concurrency}`, ...process.argv.slice(2)],
  { stdio: 'inherit', env: { NODE_COMPILE_CACHE: CACHE, ...process.env } },
);
process.exitCode = status ?? 1;
