import assert from 'node:assert/strict';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { runCommand } from '../../src/inventory/run-command.ts';
import { jsonParse } from '../../src/inventory/variants.ts';

const folder = await mkdtemp(join(tmpdir(), 'oselya-bench-test-'));
after(() => rm(folder, { recursive: true }));
const output = join(folder, 'output.txt');
const { signal } = new AbortController();

async function writeScript(name: string, code: string): Promise<string> {
  const file = join(folder, name);
  await writeFile(file, code);
  return file;
}

test('the output, exit status and resource usage of a command are recorded', async () => {
  const file = await writeScript('records.json', '[{}, {}, {}]');
  const run = await runCommand(jsonParse.args(file), { folder, output, signal });
  assert.equal(await readFile(output, 'utf8'), '3\n');
  assert.equal(run.exitStatus, 0);
  assert.ok(run.wallMs > 0);
  assert.ok((run.usage?.cpuMs ?? 0) > 0 && (run.usage?.peakMB ?? 0) > 1, JSON.stringify(run));
});

test('a command reads its input, and may exit without reading it', async () => {
  const echo = await writeScript('echo.mjs', 'process.stdin.pipe(process.stdout);');
  await runCommand([echo], { folder, output, input: ['one ', 'two'], signal });
  assert.equal(await readFile(output, 'utf8'), 'one two');
  const earlyExit = await writeScript('leave.mjs', 'process.exit(3);');
  const input = Array.from({ length: 50 }, () => 'x'.repeat(100_000));
  const { exitStatus } = await runCommand([earlyExit], { folder, output, input, signal });
  assert.equal(exitStatus, 3);
});

test('the peak memory of a command excludes the memory of its parent process', async () => {
  const parentMemory = Buffer.alloc(400_000_000, 1);
  const file = await writeScript('small.json', '[]');
  const run = await runCommand(jsonParse.args(file), { folder, output, signal });
  assert.equal(parentMemory.at(-1), 1);
  assert.ok((run.usage?.peakMB ?? 0) > 1 && (run.usage?.peakMB ?? 0) < 300, JSON.stringify(run));
});

test('a crashed command has no exit status and no resource usage', async () => {
  const crash = await writeScript('broken.mjs', `process.kill(process.pid, 'SIGKILL');`);
  const { exitStatus, usage } = await runCommand([crash], { folder, output, signal });
  assert.equal(exitStatus, null);
  assert.equal(usage, undefined);
});
