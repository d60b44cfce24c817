import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { createAskForPicture, MOST_LIMITED_TRIALS } from '../../src/images/trials.ts';
import { calls, createAsk, createTurns, failing } from './trial-calls.ts';

/** A limit that a picture meets, as the last of the client's attempts tells of it. */
const limited = (retryAfterMs?: number) =>
  failing('MODEL_RATE_LIMITED', 429, retryAfterMs === undefined ? {} : { retryAfterMs });

/** Time that goes on by a step each time that somebody asks whether a trial may begin. */
function steppedClock(t: TestContext, stepMs: number) {
  const clock = { now: 1000 };
  t.mock.method(performance, 'now', () => clock.now);
  return Object.assign(clock, {
    mayBegin: () => {
      clock.now += stepMs;
      return true;
    },
  });
}

const DAY_MS = 24 * 3_600_000;
const LIMITED_TRIALS = Array.from({ length: MOST_LIMITED_TRIALS }, () => ['control', 'ask']).flat();

for (const [asked, retryAfterMs, waitMs] of [
  ['nothing', undefined, 10],
  ['a moment', 3, 10],
  ['more', 700, 700],
  ['more than a day', 7 * DAY_MS, DAY_MS],
] as const) {
  test(`where a limit asks for ${asked} a picture is refused after trials that have waited`, async (t) => {
    const stepMs = waitMs / 5;
    const clock = steppedClock(t, stepMs);
    const trials: number[] = [];
    const control = () => Promise.resolve(trials.push(clock.now));
    const bad = calls(limited(retryAfterMs), control, { mayBegin: clock.mayBegin });
    const verdict = await createAskForPicture(createTurns(), { limitPauseMs: 10 })('1', bad);
    assert.ok('refusal' in verdict);
    assert.equal(verdict.refusal.code, 'MODEL_RATE_LIMITED');
    assert.equal(verdict.refusal.status, 429);
    assert.match(verdict.refusal.message, /5 trials.*It is MODEL_RATE_LIMITED\.$/);
    assert.deepEqual(bad.noted, ['ask', ...LIMITED_TRIALS]);
    const waits = trials.map((at, nth) => at - (trials[nth - 1] ?? 1000));
    const [first = 0, ...others] = waits;
    assert.ok(first >= Math.min(retryAfterMs ?? 0, waitMs), `${first} ms`);
    for (const wait of others) assert.ok(wait >= waitMs && wait <= waitMs + 2 * stepMs, `${wait}`);
  });
}

test('a picture that a limit lets pass in the end is described, and has all its trials again', async (t) => {
  const clock = steppedClock(t, 10);
  const ask = createAskForPicture(createTurns(), { limitPauseMs: 10 });
  for (let turn = 0; turn < 2; turn += 1) {
    let left = MOST_LIMITED_TRIALS;
    const call = () => ((left -= 1) < 0 ? Promise.resolve('seen') : limited()());
    const passing = calls(call, undefined, { mayBegin: clock.mayBegin });
    assert.deepEqual(await ask('1', passing), { answer: 'seen' });
    assert.deepEqual(passing.noted, ['ask', ...LIMITED_TRIALS]);
  }
});

const cannotWait = () => calls(limited(), undefined, { mayWait: false });

test('whoever cannot wait hears of the limit at once, and sooner than it ends nothing counts', async (t) => {
  const clock = steppedClock(t, 0);
  const ask = createAskForPicture(createTurns(), { limitPauseMs: 1000 });
  const first = cannotWait();
  await assert.rejects(ask('1', first), { code: 'MODEL_RATE_LIMITED' });
  assert.deepEqual(first.noted, ['ask', 'control', 'ask']);
  for (let trial = 2; trial < MOST_LIMITED_TRIALS; trial += 1) {
    clock.now += 1000;
    await assert.rejects(ask('1', cannotWait()), { code: 'MODEL_RATE_LIMITED' });
    const early = cannotWait();
    await assert.rejects(ask('1', early), { code: 'MODEL_RATE_LIMITED' });
    assert.deepEqual(early.noted, ['control', 'ask']);
  }
  clock.now += 1000;
  assert.ok('refusal' in (await ask('1', cannotWait())));
});

test('a limit that opens the breaker, and failures of other kinds, are counted apart', async (t) => {
  const clock = steppedClock(t, 10);
  const ask = createAskForPicture(createTurns(), { limitPauseMs: 10 });
  const fails: (() => Promise<never>)[] = [
    limited(),
    limited(),
    failing('MODEL_TIMEOUT'),
    limited(),
    failing('MODEL_TIMEOUT'),
    limited(),
    limited(),
    failing('MODEL_TIMEOUT'),
  ];
  const bad = calls(() => (fails.shift() ?? assert.fail('asked too often'))(), undefined, {
    mayBegin: clock.mayBegin,
  });
  const verdict = await ask('1', bad);
  assert.equal('refusal' in verdict && verdict.refusal.code, 'MODEL_TIMEOUT');
  assert.deepEqual(fails, []);

  const open = failing('MODEL_BREAKER_OPEN');
  const opening = calls(open, undefined, {
    requestFails: 'MODEL_RATE_LIMITED',
    mayBegin: clock.mayBegin,
  });
  const limit = await ask('2', opening);
  assert.equal('refusal' in limit && limit.refusal.code, 'MODEL_RATE_LIMITED');
  assert.deepEqual(opening.noted, ['ask', ...LIMITED_TRIALS]);
});

test('a limit is waited for no longer than trials may take, nor than its job', async () => {
  const ask = createAsk();
  const late = calls(limited(DAY_MS), undefined, { mayBegin: () => false });
  await assert.rejects(ask('1', late), { code: 'MODEL_RATE_LIMITED' });
  assert.deepEqual(late.noted, ['ask']);
  const stop = new AbortController();
  const stopped = calls(limited(DAY_MS), undefined, { signal: stop.signal });
  const waiting = ask('1', stopped);
  await setImmediate();
  stop.abort(new Error('stopped'));
  await assert.rejects(waiting, { message: 'stopped' });
  assert.deepEqual(stopped.noted, []);
});
