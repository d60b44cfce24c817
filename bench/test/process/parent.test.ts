import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type RemoteProcess, startProcess } from '../../src/process/parent.ts';
import type { Answering } from './answering.ts';

const start = (signal = new AbortController().signal): RemoteProcess<Answering> =>
  startProcess<Answering>(new URL('answering.ts', import.meta.url), signal);

test('a process answers what it is asked, each question its own answer', async () => {
  await using child = start();
  const answers = await Promise.all([child.call('double', 1), child.call('double', 21)]);
  assert.deepEqual(answers, [2, 42]);
  assert.equal(await child.call('environment'), 'production');
});

test('what fails there fails here, with its reason, and the process goes on', async () => {
  await using child = start();
  await assert.rejects(child.call('fail', 'no such table'), /no such table/);
  assert.equal(await child.call('double', 4), 8);
});

test('a process that ends leaves no question without an answer', async () => {
  await using child = start();
  const waiting = child.call('wait');
  await Promise.all([
    assert.rejects(child.call('end', 3), /answering\.ts ended \(3\)/),
    assert.rejects(waiting, /ended \(3\)/),
  ]);
  await assert.rejects(child.call('double', 1), /ended \(3\)/);
});

test('who gives up ends the process', async () => {
  const stop = new AbortController();
  await using child = start(stop.signal);
  assert.equal(await child.call('double', 1), 2);
  const waiting = child.call('wait');
  stop.abort();
  await assert.rejects(waiting, { name: 'AbortError' });
});

test('leaving the scope ends the process', async () => {
  const child = start();
  assert.equal(await child.call('double', 1), 2);
  await child[Symbol.asyncDispose]();
  await assert.rejects(child.call('double', 1), /ended/);
});
