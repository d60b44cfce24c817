import { spawnSync } from 'node:child_process';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';

// Runs the test files that its arguments name. Each file is a process of its own, which need not compile
// again what the one before it has.
const CACHE = join(import.meta.dirname, '../node_modules/.cache/node-compile');
const GUARD = join(import.meta.dirname, 'end-hung-file.ts');

// Node leaves one core free, which on a machine with two is half of it. A file waits for much of its time: for
// timers, for processes of its own, for a server; so there is one more of them than cores.
const concurrency = availableParallelism() + 1;

// No file uses its embedded database for so long that what the optimising compiler spends on it comes
// back: with the baseline compiler alone a file takes a sixth to a quarter less of the processor.
const WEBASSEMBLY = '--liftoff-only';

const { status } = spawnSync(
  process.execPath,
  [
    WEBASSEMBLY,
    '--import',
    GUARD,
    '--test',
    `--test-concurrency=${concurrency}`,
    ...process.argv.slice(2),
  ],
  { stdio: 'inherit', env: { NODE_COMPILE_CACHE: CACHE, ...process.env } },
);
process.exitCode = status ?? 1;
