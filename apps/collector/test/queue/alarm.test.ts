import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createAlarm } from '../../src/queue/alarm.ts';

const LATE_MS = 60_000;

test('a ring ends the wait', { timeout: 60_000 }, async () => {
  const alarm = createAlarm();
  const waiting = alarm.wait(LATE_MS);
  alarm.ring();
  await waiting;
});

test(
  'a ring that nobody waited for ends the next wait, and only that',
  { timeout: 60_000 },
  async () => {
    const alarm = createAlarm();
    alarm.ring();
    alarm.ring();
    await alarm.wait(LATE_MS);
    const startedAt = performance.now();
    await alarm.wait(20);
    assert.ok(performance.now() - startedAt >= 15, 'the wait took its time');
  },
);
