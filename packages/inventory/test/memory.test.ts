import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

const run = async (script: string, flags: string[] = [], source = '') => {
  const file = fileURLToPath(new URL(`support/${script}`, import.meta.url));
  const { stdout } = await promisify(execFile)(process.execPath, [...flags, file, source]);
  return JSON.parse(stdout);
};

// Each is far more than this heap holds, so keeping it, or all that is wrong with it, ends the process.
const HEAP = ['--max-old-space-size=64'];

for (const [source, records, findings] of [
  ['array', 200_001, 0],
  // In each hundredth record a key is repeated, and six are missing.
  ['faulty', 200_001, 7 * 2_400],
  ['gzip', 200_001, 0],
  ['lines', 400_000, 0],
  // Repeated keys are told one by one up to a thousand; then they are counted. Seven keys are missing.
  ['long key', 1, 1_001 + 7],
  ['short keys', 1, 1_001 + 7],
] as const) {
  test(`memory does not grow with the inventory: ${source}`, { timeout: 480_000 }, async () => {
    const found = await run('read-large.ts', HEAP, source);
    assert.deepEqual([found.records, found.findings], [records, findings]);
    // Buffers lie outside of that heap, and what native code uses is in neither figure.
    assert.ok(found.peakBytes < 100_000_000, `${found.peakBytes} bytes at the highest`);
    assert.ok(found.residentBytes < 250_000_000, `${found.residentBytes} bytes in all`);
  });
}

test('the command keeps the heap for new values as small as it is', async () => {
  const { status, printed, before, after } = await run('check-large.ts');
  assert.equal(status, 1);
  assert.ok(printed > 200_000, `${printed} bytes`);
  assert.ok(before > 0 && after <= before, `${before} bytes before, ${after} after`);
});
