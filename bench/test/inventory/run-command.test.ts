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

async function script(name: string, code: string): Promise<string> {
  const file = join(folder, name);
  await writeFile(file, code);
  return file;
}

test('what a command prints, how it ends and what it used are kept', async () => {
  const file = await script('records.json', '[{}, {}, {}]');
  const run = await runCommand(jsonParse.args(file), { folder, output, signal });
  assert.equal(await readFile(output, 'utf8'), '3\n');
  assert.equal(run.exitStatus, 0);
  assert.ok(run.wallMs > 0);
  assert.ok((run.usage?.cpuMs ?? 0) > 0 && (run.usage?.peakMB ?? 0) > 1, JSON.stringify(run));
});

test('a command reads what it is given, and may leave the rest', async () => {
  const echo = await script('echo.mjs', 'process.stdin.pipe(process.stdout);');
  await runCommand([echo], { folder, output, input: ['one ', 'two'], signal });
  assert.equal(await readFile(output, 'utf8'), 'one two');
  const leave = await script('leave.mjs', 'process.exit(3);');
  const input = Array.from({ length: 50 }, () => 'x'.repeat(100_000));
  const { exitStatus } = await runCommand([leave], { folder, output, input, signal });
  assert.equal(exitStatus, 3);
});

test('its memory is its own, however much the process has that starts it', async () => {
  const own = Buffer.alloc(400_000_000, 1);
  const file = await script('small.json', '[]');
  const run = await runCommand(jsonParse.args(file), { folder, output, signal });
  assert.equal(own.at(-1), 1);
  assert.ok((run.usage?.peakMB ?? 0) > 1 && (run.usage?.peakMB ?? 0) < 300, JSON.stringify(run));
});

test('a command that broke down has no exit status, and nothing that it used', async () => {
  const broken = await script('broken.mjs', `process.kill(process.pid, 'SIGKILL');`);
  const { exitStatus, usage } = await runCommand([broken], { folder, output, signal });
  assert.equal(exitStatus, null);
  assert.equal(usage, undefined);
});
