import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createPause } from '../../src/ingest/pause.ts';

test('all wait until the longest hold is over', async () => {
  const { signal } = new AbortController();
  const pause = createPause();
  await pause.wait(signal);
  pause.hold(60);
  pause.hold(1);
  const begun = performance.now();
  await Promise.all([pause.wait(signal), pause.wait(signal)]);
  assert.ok(performance.now() - begun >= 55, 'the shorter hold does not end the longer one');
});

test('who stops does not wait, before and while', async () => {
  const controller = new AbortController();
  const pause = createPause();
  pause.hold(3_600_000);
  const waiting = assert.rejects(pause.wait(controller.signal), { name: 'AbortError' });
  controller.abort();
  await waiting;
  await assert.rejects(createPause().wait(controller.signal), { name: 'AbortError' });
});
