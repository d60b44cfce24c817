import assert from 'node:assert/strict';
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { pipeline } from 'node:stream/promises';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { HOSTILE } from './support/hostile-inventories.ts';

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

/** What the whole process of the command may take, Node and its modules included (docs/adr/0022-size-of-a-record.md). */
const PEAK_BYTES = 150_000_000;

const pathOf = (relative: string) => fileURLToPath(new URL(relative, import.meta.url));

/** The command where the package is installed alone, and as a part of the platform. */
const COMMANDS = {
  'oselya-inventory': [pathOf('../src/bin.ts')],
  'oselya inventory': [pathOf('../../../apps/cli/bin/oselya.js'), 'inventory'],
};

const runs = Object.entries(COMMANDS).flatMap(([name, command]) =>
  Object.entries(HOSTILE).map(([kind, inventory]) => ({ name, command, kind, ...inventory })),
);

for (const { name, command: started, kind, status, chunks } of runs) {
  test(`${name} takes little memory: ${kind}`, { timeout: 480_000 }, async () => {
    const print = new URL('support/print-peak.ts', import.meta.url).href;
    const args = ['--import', print, ...started, 'validate', '-'];
    const command = spawn(process.execPath, args, { stdio: ['pipe', 'ignore', 'pipe'] });
    const ended = once(command, 'close');
    const [told] = await Promise.all([
      text(command.stderr),
      pipeline(Readable.from(chunks()), command.stdin),
    ]);
    assert.deepEqual(await ended, [status, null], told);
    assert.ok(Number(told) > 0 && Number(told) <= PEAK_BYTES, `${told} bytes`);
  });
}

test('the command keeps the heap for new values as small as it is', async () => {
  const { status, printed, before, after } = await run('check-large.ts');
  assert.equal(status, 1);
  assert.ok(printed > 200_000, `${printed} bytes`);
  // Without, it grows to some 30 MB. It may have grown before, while the modules were compiled.
  const most = Math.max(before, 4 * 1024 * 1024);
  assert.ok(before > 0 && after <= most, `${before} bytes before, ${after} after`);
});
