import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type RemoteProcess, startProcess } from '../../src/process/parent.ts';
import type { TestProcess } from './test-process.ts';

const start = (signal = new AbortController().signal): RemoteProcess<TestProcess> =>
  startProcess<TestProcess>(new URL('test-process.ts', import.meta.url), signal);

test('each concurrent method call receives its own result', async () => {
  await using child = start();
  const results = await Promise.all([child.call('double', 1), child.call('double', 21)]);
  assert.deepEqual(results, [2, 42]);
  assert.equal(await child.call('environment'), 'production');
});

test('a failed method rejects its call with the reason, and the process continues', async () => {
  await using child = start();
  await assert.rejects(child.call('fail', 'no such table'), /no such table/);
  assert.equal(await child.call('double', 4), 8);
});

test('pending and later calls to an exited process are rejected', async () => {
  await using child = start();
  const pendingCall = child.call('wait');
  await Promise.all([
    assert.rejects(child.call('exit', 3), /test-process\.ts ended \(3\)/),
    assert.rejects(pendingCall, /ended \(3\)/),
  ]);
  await assert.rejects(child.call('double', 1), /ended \(3\)/);
});

test('an aborted signal ends the process', async () => {
  const stop = new AbortController();
  await using child = start(stop.signal);
  assert.equal(await child.call('double', 1), 2);
  const pendingCall = child.call('wait');
  stop.abort();
  await assert.rejects(pendingCall, { name: 'AbortError' });
});

test('the end of the scope ends the process', async () => {
  const child = start();
  assert.equal(await child.call('double', 1), 2);
  await child[Symbol.asyncDispose]();
  await assert.rejects(child.call('double', 1), /ended/);
});
