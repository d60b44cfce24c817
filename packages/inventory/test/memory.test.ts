import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

test('memory does not grow with the inventory', { timeout: 480_000 }, async () => {
  const script = fileURLToPath(new URL('support/read-large.ts', import.meta.url));
  // 160 MB of records do not fit this heap: keeping them ends the process.
  const { stdout } = await promisify(execFile)(process.execPath, [
    '--max-old-space-size=64',
    script,
  ]);
  const { records, findings, peakBytes } = JSON.parse(stdout);
  assert.equal(records, 400_001);
  assert.equal(findings, 0);
  // Buffers lie outside of that heap, so they are measured.
  assert.ok(peakBytes < 100_000_000, `${peakBytes} bytes at the highest`);
});
