import { spawnSync } from 'node:child_process';
import { availableParallelism } from 'node:os';

// Runs the test files that its arguments name. Node leaves one core free, which on a machine with two
// is half of it, and most files wait for a database to start.
const concurrency = Math.max(2, availableParallelism() - 1);
const { status } = spawnSync(
  process.execPath,
  ['--test', `--test-concurrency=${concurrency}`, ...process.argv.slice(2)],
  { stdio: 'inherit' },
);
process.exitCode = status ?? 1;
