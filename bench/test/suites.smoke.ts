import { execFile } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, test } from 'node:test';
import { promisify } from 'node:util';
import { suites } from '../src/suites.ts';

// Smoke-tests each suite. The error of a failed test includes the suite's output.
const MAIN = new URL('../src/main.ts', import.meta.url).pathname;

const folder = await mkdtemp(join(tmpdir(), 'oselya-bench-'));
after(() => rm(folder, { recursive: true }));

// Each suite is idle for much of its time, so several run concurrently.
describe('suites', { concurrency: 3 }, () => {
  for (const suite of suites.keys()) {
    test(
      `${suite} has correct responses and counts`,
      { timeout: 5 * 60_000 },
      async ({ signal }) => {
        const args = [MAIN, suite, '--smoke', '--out', join(folder, `${suite}.jsonl`)];
        await promisify(execFile)(process.execPath, args, { signal });
      },
    );
  }
});
