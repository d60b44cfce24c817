import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

const run = async (script: string, ...flags: string[]) => {
  const file = fileURLToPath(new URL(`support/${script}`, import.meta.url));
  const { stdout } = await promisify(execFile)(process.execPath, [...flags, file]);
  return JSON.parse(stdout);
};

test('memory does not grow with the inventory', { timeout: 480_000 }, async () => {
  // 160 MB of records do not fit this heap: keeping them ends the process.
  const flags = ['--max-old-space-size=64'];
  const { records, findings, peakBytes } = await run('read-large.ts', ...flags);
  assert.equal(records, 400_001);
  assert.equal(findings, 0);
  // Buffers lie outside of that heap, so they are measured.
  assert.ok(peakBytes < 100_000_000, `${peakBytes} bytes at the highest`);
});

test('the command keeps the heap for new values as small as it is', async () => {
  const { status, printed, before, after } = await run('check-large.ts');
  assert.equal(status, 1);
  assert.ok(printed > 200_000, `${printed} bytes`);
  assert.ok(before > 0 && after <= before, `${before} bytes before, ${after} after`);
});
