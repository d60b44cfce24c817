import { execFile } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, test } from 'node:test';
import { promisify } from 'node:util';
import { suites } from '../src/suites.ts';

// Runs each suite for a moment, whatever the machine is busy with: that it answers and counts rightly, and still fits
// what it measures. Its exit status tells, and what it printed is in the error.
const MAIN = new URL('../src/main.ts', import.meta.url).pathname;

const folder = await mkdtemp(join(tmpdir(), 'oselya-bench-'));
after(() => rm(folder, { recursive: true }));

// Each waits for much of its time.
describe('suites', { concurrency: 3 }, () => {
  for (const suite of suites.keys()) {
    test(`${suite} answers and counts rightly`, { timeout: 5 * 60_000 }, async ({ signal }) => {
      const args = [MAIN, suite, '--smoke', '--out', join(folder, `${suite}.jsonl`)];
      await promisify(execFile)(process.execPath, args, { signal });
    });
  }
});
