import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { runInventoryProcess } from '../src/process.ts';
import { Collector } from './support/transcript.ts';

test('a fault of its own is told, and ends with another status than an invalid inventory', async () => {
  const [stdout, stderr] = [new Collector(), new Collector()];
  // Texts instead of bytes: no stream of a process has them.
  const stdin = Readable.from(['[]']) as AsyncIterable<never>;
  const listeners = process.listenerCount('uncaughtException');
  const status = await runInventoryProcess(['report', '-'], { stdin, stdout, stderr, env: {} });
  assert.equal(status, 2);
  assert.match(
    stderr.text,
    /^oselya inventory: it broke down, which is a fault of its own: TypeErr/,
  );
  assert.equal(process.listenerCount('uncaughtException'), listeners);
});

test('so does what nobody waits for', async () => {
  const bin = fileURLToPath(new URL('../src/bin.ts', import.meta.url));
  const breakDown = `process.on('newListener', (name) => {
    if (name === 'uncaughtException') setImmediate(() => { throw new Error('boom'); });
  });`;
  const breaking = `data:text/javascript,${encodeURIComponent(breakDown)}`;
  // It waits for its standard input, which does not end.
  const command = spawn(process.execPath, ['--import', breaking, bin, 'validate', '-']);
  const closed = once(command, 'close');
  const [told, [status]] = await Promise.all([text(command.stderr), closed]);
  assert.equal(status, 2, told);
  assert.match(told, /^oselya-inventory: it broke down, which is a fault of its own: Error: boom/);
});
