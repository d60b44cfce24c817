import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import manifest from '../package.json' with { type: 'json' };

const script = fileURLToPath(new URL('support/command.ts', import.meta.url));

function start(...args: string[]) {
  const child = spawn(process.execPath, [script, ...args]);
  let stderr = '';
  child.stderr.on('data', (data: Buffer) => {
    stderr += data.toString();
  });
  // The command may end before it has read everything.
  child.stdin.on('error', () => {});
  return { child, stderr: () => stderr, exited: once(child, 'close') };
}

test('a reader that goes away ends the command quietly, with the right status', async () => {
  const { child, stderr, exited } = start('validate', '-');
  // Far more findings than a pipe holds, and no end of the input.
  child.stdin.write(`[${'1,'.repeat(200_000)}`);
  await once(child.stdout, 'data');
  child.stdout.destroy();
  const [status] = await exited;
  assert.equal(stderr(), '');
  assert.equal(status, 1);
});

test('a process that prints to a pipe uses no colours and ends with the status', async () => {
  const { child, stderr, exited } = start('validate', '--max-errors', '1', '-');
  let stdout = '';
  child.stdout.on('data', (data: Buffer) => {
    stdout += data.toString();
  });
  child.stdin.end('[1]');
  const [status] = await exited;
  assert.equal(
    stdout,
    '<stdin>:1:2: error: a record must be an object; found a number [schema/type] (/0)\n' +
      '<stdin>: 1 error; stopped after 1 record\n',
  );
  assert.equal(stderr(), '');
  assert.equal(status, 1);
});

test('--version prints the version of the package, and nothing else', async () => {
  for (const flag of ['--version', '-V']) {
    const { child, stderr, exited } = start(flag);
    let stdout = '';
    child.stdout.on('data', (data: Buffer) => {
      stdout += data.toString();
    });
    const [status] = await exited;
    assert.deepEqual([status, stdout, stderr()], [0, `${manifest.version}\n`, '']);
  }
});
