import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createAutoResetEvent } from '../../src/queue/auto-reset-event.ts';

const LATE_MS = 60_000;

test('to set it ends the wait', { timeout: 60_000 }, async () => {
  const event = createAutoResetEvent();
  const waiting = event.wait(LATE_MS);
  event.set();
  await waiting;
});

test(
  'what was set while nobody waited ends the next wait, and only that',
  { timeout: 60_000 },
  async () => {
    const event = createAutoResetEvent();
    event.set();
    event.set();
    await event.wait(LATE_MS);
    const startedAt = performance.now();
    await event.wait(20);
    assert.ok(performance.now() - startedAt >= 15, 'the wait took its time');
  },
);
