import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createPause, retryAfterMs } from '../../src/ingest/pause.ts';

const NOW = Date.parse('2026-11-21T10:00:00Z');
const after = (text: string) => retryAfterMs(new Headers({ 'retry-after': text }), NOW);

test('Retry-After is seconds or a date', () => {
  assert.equal(after('57'), 57_000);
  assert.equal(after('0'), 0);
  assert.equal(after('Sat, 21 Nov 2026 10:01:30 GMT'), 90_000);
  assert.equal(after('Sat, 21 Nov 2026 09:00:00 GMT'), 0);
  for (const text of ['', 'soon', '-1', '1.5', '2026-11-21', '99999999999'])
    assert.equal(after(text), undefined);
  assert.equal(retryAfterMs(new Headers(), NOW), undefined);
});

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
