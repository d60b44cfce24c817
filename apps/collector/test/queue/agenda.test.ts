import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createAgenda } from '../../src/queue/agenda.ts';
import { fakeBreaker } from '../support/breaker.ts';

/** An agenda, and all that it goes by. Its pauses are as long as they can be. */
function open() {
  const slots = { free: 4, extra: 0, isEmpty: true };
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
  agenda.postponed();
  assert.ok(agenda.isKeptBack());
  agenda.claiming();
  assert.equal(agenda.isKeptBack(), false, 'a claim is tried once more');
});

test('after a job came back there is a pause of a poll', () => {
  const { agenda, next, time } = open();
  agenda.postponed();
  assert.equal(next(), 'wait 1000');
  time.now = 1000;
  assert.equal(next(), 'claim');
  assert.deepEqual(agenda.claiming(), [], 'it was only kept back');
});

test('a job that the model failed on is left out once', () => {
  const { agenda, next, slots } = open();
  agenda.suspected(7);
  assert.deepEqual(agenda.claiming(), [7]);
  agenda.claimed({ isEmpty: true, leftOut: [7] });
  assert.equal(next(), 'claim', 'it may be the only one');
  assert.deepEqual(agenda.claiming(), []);

  agenda.suspected(8);
  agenda.claimed({ isEmpty: false, leftOut: [] });
  assert.deepEqual(agenda.claiming(), [8], 'it came back while the claim was on its way');
  slots.isEmpty = false;
  agenda.claimed({ isEmpty: false, leftOut: [8] });
  assert.deepEqual(agenda.claiming(), []);
});

test('a claim beyond the slots, which asks for few of the others, is no turn of theirs', () => {
  const { agenda, slots } = open();
  slots.isEmpty = false;
  agenda.suspected(7);
  agenda.claimed({ isEmpty: true, leftOut: agenda.claiming(), isBeyond: true });
  assert.deepEqual(agenda.claiming(), [7]);
  agenda.claimed({ isEmpty: false, leftOut: [7] });
  assert.deepEqual(agenda.claiming(), []);
});

test('while the model may be tried others go before it, until there are none, or for thirty polls', () => {
  const { agenda, next, slots, breaker, time } = open();
  breaker.set('half-open');
  agenda.suspected(7);
  slots.isEmpty = false;
  agenda.claimed({ isEmpty: false, leftOut: agenda.claiming() });
  assert.equal(next(), 'claim');
  agenda.claimed({ isEmpty: true, leftOut: agenda.claiming() });
  assert.equal(next(), 'wait 1000', 'those are in progress');
  agenda.woke();
  assert.deepEqual(agenda.claiming(), [7]);
  time.now = 29_999;
  agenda.claimed({ isEmpty: true, leftOut: [7] });
  assert.deepEqual(agenda.claiming(), [7]);
  time.now = 30_000;
  agenda.claimed({ isEmpty: true, leftOut: [7] });
  assert.deepEqual(agenda.claiming(), [], 'it may be an outage like any other');

  agenda.suspected(8);
  agenda.claimed({ isEmpty: true, leftOut: agenda.claiming() });
  slots.isEmpty = true;
  agenda.claimed({ isEmpty: true, leftOut: agenda.claiming() });
  assert.deepEqual(agenda.claiming(), [], 'nobody else is there');

  agenda.suspected(9);
  slots.isEmpty = false;
  breaker.set('closed');
  agenda.claimed({ isEmpty: false, leftOut: agenda.claiming() });
  assert.deepEqual(agenda.claiming(), [], 'others have shown how it is');
});

test('others go before all jobs that the model may have failed on; where none are left, these go one by one', () => {
  const { agenda, next, slots, breaker } = open();
  breaker.set('half-open');
  slots.isEmpty = false;
  for (const rawId of [7, 8, 7]) {
    agenda.suspected(rawId);
    agenda.claimed({ isEmpty: false, leftOut: agenda.claiming() });
  }
  assert.deepEqual(agenda.claiming(), [8, 7], 'the one that was suspected last goes last');
  slots.isEmpty = true;
  agenda.claimed({ isEmpty: true, leftOut: agenda.claiming() });
  assert.equal(next(), 'claim');
  assert.deepEqual(agenda.claiming(), [7]);
  for (let rawId = 100; rawId < 300; rawId += 1) agenda.suspected(rawId);
  assert.deepEqual([agenda.claiming().length, agenda.claiming()[0]], [100, 200]);
});

test('the time in which the model could not be tried is none in which others have gone first', () => {
  const { agenda, next, slots, breaker, time } = open();
  slots.isEmpty = false;
  agenda.suspected(7);
  breaker.set('open');
  time.now = 40_000;
  assert.equal(next(), 'wait 1000');
  breaker.set('half-open');
  time.now = 69_999;
  agenda.claimed({ isEmpty: false, leftOut: agenda.claiming() });
  assert.deepEqual(agenda.claiming(), [7]);
  time.now = 70_000;
  agenda.claimed({ isEmpty: false, leftOut: agenda.claiming() });
  assert.deepEqual(agenda.claiming(), []);
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
