import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type Sample, judge } from '../../src/chat/report.ts';

const sample = (changes: Partial<Sample>): Sample => ({
  variant: 'assistant',
  arrival: 'within a second',
  round: 1,
  seconds: 5,
  cpuMs: 1,
  tokens: 25_000,
  perSecond: 50,
  p50: 1,
  p99: 10,
  max: 20,
  failures: [],
  ...changes,
});
const idle = { variant: 'assistant' as const, sockets: 1000, rss: 50_000, heap: 1 };
const right = {
  samples: [sample({}), sample({ round: 2, p99: 20 }), sample({ round: 3, p99: 60 })],
  idle: [idle],
  stored: 800,
  said: 800,
  smoke: false,
};
const met = (changes: Partial<typeof right>) =>
  judge({ ...right, ...changes }).map((one) => one.met);

test('the median of the rounds is judged, nothing of the relay, nor of messages that come all at once', () => {
  assert.deepEqual(met({}), [true, true, true]);
  const relay = sample({ variant: 'relay', p99: 500, failures: ['event 3 came in place of 2'] });
  assert.deepEqual(met({ samples: [...right.samples, relay, relay, relay, relay] }), [
    true,
    true,
    true,
  ]);
  const burst = sample({ arrival: 'all at once', p99: 500 });
  assert.deepEqual(met({ samples: [...right.samples, burst, burst, burst, burst] }), [
    true,
    true,
    true,
  ]);
  assert.deepEqual(met({ samples: [sample({ p99: 20.1 })] }), [false, true, true]);
});

test('a socket that holds more, or was not looked at, is not met', () => {
  assert.deepEqual(met({ idle: [{ ...idle, rss: 50_001 }] }), [true, false, true]);
  assert.deepEqual(met({ idle: [{ ...idle, heap: 50_001 }] }), [true, false, true]);
  assert.deepEqual(met({ idle: [] }), [true, false, true]);
});

test('a message too few or too many, or an event out of turn, is not met, also of a short run', () => {
  assert.deepEqual(met({ stored: 799, smoke: true }), [false]);
  assert.deepEqual(met({ stored: 801, smoke: true }), [false]);
  const samples = [sample({ failures: ['event 3 came in place of 2'] })];
  assert.deepEqual(met({ samples, smoke: true }), [false]);
});
