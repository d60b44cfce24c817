import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createAgenda } from '../../src/queue/agenda.ts';
import { fakeBreaker } from '../support/breaker.ts';

/** An agenda, and all that it goes by. Its pauses are as long as they can be. */
function open() {
  const slots = { free: 4, extra: 0 };
  const breaker = fakeBreaker();
  const stopping = new AbortController();
  const time = { now: 0, luck: 1 };
  const agenda = createAgenda({
    slots,
    breaker,
    stopping: stopping.signal,
    pollMs: 1000,
    random: () => time.luck,
    clock: () => time.now,
  });
  /** What is done next, with its time where it has one. */
  const next = () => {
    const step = agenda.next();
    return 'ms' in step ? `${step.do} ${step.ms}` : step.do;
  };
  return { agenda, next, slots, breaker, stopping, time };
}

test('it claims again while there is work, and waits for a word once there is none', () => {
  const { agenda, next } = open();
  assert.equal(next(), 'claim');
  agenda.claimed({ isEmpty: false });
  assert.equal(next(), 'claim');
  agenda.claimed({ isEmpty: true });
  assert.equal(next(), 'wait 1000');
  assert.equal(next(), 'wait 1000');
  agenda.woke();
  assert.equal(next(), 'claim');
  agenda.refused();
  assert.equal(next(), 'wait 1000');
});

test('beyond the slots it claims where nothing was claimed for as long as a poll', () => {
  const { agenda, next, slots, time, breaker } = open();
  agenda.claimed({ isEmpty: false });
  Object.assign(slots, { free: 0, extra: 1 });
  time.now = 999;
  agenda.woke();
  assert.equal(next(), 'wait 1000', 'whatever word there is');
  time.now = 1000;
  assert.equal(next(), 'claim');
  agenda.claimed({ isEmpty: true });
  time.now = 2500;
  agenda.woke();
  breaker.set('open');
  assert.equal(next(), 'wait 1000');
  breaker.set('closed');
  assert.equal(next(), 'claim');
  slots.extra = 0;
  assert.equal(next(), 'wait 1000');
});

test('without a free slot, and while the breaker is open, it waits', () => {
  const { agenda, next, slots, breaker } = open();
  slots.free = 0;
  assert.equal(next(), 'wait 1000');
  slots.free = 1;
  assert.equal(next(), 'claim', 'no word was missed');
  breaker.set('open');
  assert.equal(next(), 'wait 1000');
  breaker.set('half-open');
  breaker.probe(true);
  assert.equal(next(), 'claim', 'others may ask another server');
  agenda.postponed(7);
  assert.ok(agenda.isKeptBack());
});

test('a job that came back is spared once, after a poll', () => {
  const { agenda, next, time } = open();
  agenda.postponed(7);
  assert.equal(next(), 'wait 1000');
  time.now = 1000;
  assert.equal(next(), 'claim');
  assert.equal(agenda.spared, 7);
  agenda.claimed({ isEmpty: true, spared: 7 });
  assert.equal(agenda.spared, undefined);
  assert.equal(next(), 'claim', 'it may be the only one');
  agenda.postponed(8);
  agenda.claimed({ isEmpty: false, spared: undefined });
  assert.equal(agenda.spared, 8, 'it came back while the claim was on its way');
});

test('claims that fail are followed by longer and longer pauses, up to five seconds, that end apart', () => {
  const { agenda, next, time } = open();
  const pauses = Array.from({ length: 6 }, () => {
    agenda.failed();
    const pause = next();
    agenda.woke();
    assert.equal(next(), 'claim');
    return pause;
  });
  assert.deepEqual(
    pauses,
    [1000, 2000, 4000, 5000, 5000, 5000].map((ms) => `pause ${ms}`),
  );
  time.luck = 0;
  agenda.failed();
  assert.equal(next(), 'pause 2500');
  agenda.woke();
  agenda.claimed({ isEmpty: false });
  assert.equal(next(), 'claim', 'at once, as the database is back');
  agenda.failed();
  assert.equal(next(), 'pause 500', 'from the beginning');
});

test('once the worker stops it does nothing else', () => {
  const { agenda, next, stopping } = open();
  agenda.failed();
  stopping.abort();
  assert.equal(next(), 'stop');
});
