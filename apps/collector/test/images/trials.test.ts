import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { ModelError, type ModelErrorCode } from '@oselya/model';
import {
  createAskForPicture,
  createTrialTime,
  MOST_TRIALS,
  TRIALS_MS,
} from '../../src/images/trials.ts';
import { calls, createAsk, createTurns, failing } from './trial-calls.ts';

const serverFailures = [
  'MODEL_UNAVAILABLE',
  'MODEL_TIMEOUT',
  'MODEL_UNREACHABLE',
] as const satisfies ModelErrorCode[];

test('what is answered, or refused, is asked for once and without a control', async () => {
  const good = calls(() => Promise.resolve('a kitchen'));
  assert.deepEqual(await createAsk()('1', good), { answer: 'a kitchen' });
  assert.deepEqual(good.noted, ['ask']);
  const bad = calls(failing('MODEL_REJECTED', 413));
  const verdict = await createAsk()('1', bad);
  assert.equal('refusal' in verdict && verdict.refusal.message, 'It is MODEL_REJECTED.');
  assert.deepEqual(bad.noted, ['ask']);
});

for (const code of serverFailures) {
  test(`${code}: refused after ${MOST_TRIALS} trials, each with an answer to the control before it`, async () => {
    const bad = calls(failing(code));
    const verdict = await createAsk()('1', bad);
    assert.ok('refusal' in verdict);
    assert.equal(verdict.refusal.code, code);
    assert.match(verdict.refusal.message, new RegExp(`3 trials.*It is ${code}\\.$`));
    const trials = Array.from({ length: MOST_TRIALS }, () => ['control', 'ask']);
    assert.deepEqual(bad.noted, ['ask', ...trials.flat()]);
  });
}

test('while the control is not answered nothing is held against a picture', async () => {
  const ask = createAsk();
  for (const code of [...serverFailures, 'MODEL_RATE_LIMITED', 'MODEL_BREAKER_OPEN'] as const) {
    for (let turn = 0; turn < 5 * MOST_TRIALS; turn += 1) {
      await assert.rejects(ask(code, calls(failing('MODEL_UNAVAILABLE'), failing(code))), { code });
    }
    assert.deepEqual(
      await ask(
        code,
        calls(() => Promise.resolve('seen')),
      ),
      { answer: 'seen' },
    );
  }
});

test('trials go on where an outage ended an attempt, and begin anew after an answer', async () => {
  const ask = createAsk();
  let left = 1;
  // One trial, and then the control is not answered.
  const control = () => {
    left -= 1;
    return left < 0 ? failing('MODEL_UNREACHABLE')() : Promise.resolve();
  };
  const bad = failing('MODEL_UNAVAILABLE');
  for (let trial = 1; trial < MOST_TRIALS; trial += 1) {
    left = 1;
    await assert.rejects(ask('1', calls(bad, control)), { code: 'MODEL_UNREACHABLE' });
  }
  left = 1;
  const last = calls(bad, control);
  assert.ok('refusal' in (await ask('1', last)));
  assert.deepEqual(
    last.noted,
    ['control', 'ask'],
    'a suspect is asked for after the control alone',
  );

  left = 1;
  await assert.rejects(ask('2', calls(bad, control)), { code: 'MODEL_UNREACHABLE' });
  await ask(
    '2',
    calls(() => Promise.resolve('seen')),
  );
  const anew = calls(bad);
  assert.ok('refusal' in (await ask('2', anew)));
  assert.equal(anew.noted.length, 1 + 2 * MOST_TRIALS);
});

test('one whose request was the only one of a half-open breaker is tried after the control from then on', async () => {
  const ask = createAsk();
  const open = failing('MODEL_BREAKER_OPEN');
  const opened = calls(open, open, { requestFails: 'MODEL_UNREACHABLE' });
  await assert.rejects(ask('1', opened), { code: 'MODEL_BREAKER_OPEN' });
  const later = calls(failing('MODEL_UNAVAILABLE'));
  assert.ok('refusal' in (await ask('1', later)));
  assert.equal(later.noted[0], 'control');
  // One that no request was made for is not.
  await assert.rejects(ask('2', { ...calls(open), ask: open }), { code: 'MODEL_BREAKER_OPEN' });
  const fresh = calls(() => Promise.resolve('seen'));
  await ask('2', fresh);
  assert.deepEqual(fresh.noted, ['ask']);
});

test('a trial in which the breaker opens counts, by what the request failed with', async () => {
  const ask = createAsk();
  const open = failing('MODEL_BREAKER_OPEN');
  for (let trial = 1; trial < MOST_TRIALS; trial += 1) {
    let left = 1;
    const control = () => ((left -= 1) < 0 ? open() : Promise.resolve());
    const bad = calls(open, control, { requestFails: 'MODEL_UNREACHABLE' });
    await assert.rejects(ask('1', bad), { code: 'MODEL_BREAKER_OPEN' });
  }
  const bad = calls(open, undefined, { requestFails: 'MODEL_UNREACHABLE' });
  const verdict = await ask('1', bad);
  assert.equal('refusal' in verdict && verdict.refusal.code, 'MODEL_UNREACHABLE');
  assert.deepEqual(bad.noted, ['control', 'ask']);
});

test('trials that take too long are gone on with at the next attempt', async () => {
  const ask = createAsk();
  const bad = failing('MODEL_TIMEOUT');
  for (let attempt = 1; attempt < MOST_TRIALS; attempt += 1) {
    let left = 1;
    const tried = calls(bad, undefined, { mayBegin: () => (left -= 1) >= 0 });
    await assert.rejects(ask('1', tried), { code: 'MODEL_TIMEOUT' });
    assert.deepEqual(tried.noted, [...(attempt === 1 ? ['ask'] : []), 'control', 'ask']);
  }
  const late = calls(bad, undefined, { mayBegin: () => false });
  await assert.rejects(ask('1', late), { code: 'MODEL_TIMEOUT' });
  assert.deepEqual(late.noted, []);
  assert.ok('refusal' in (await ask('1', calls(bad))));
});

test('the time for trials begins with the first of them', (t) => {
  let now = 1000;
  t.mock.method(performance, 'now', () => now);
  const mayBegin = createTrialTime();
  now += 2 * TRIALS_MS;
  assert.equal(mayBegin(), true);
  now += TRIALS_MS - 1;
  assert.equal(mayBegin(), true);
  now += 1;
  assert.equal(mayBegin(), false);
});

test('whoever waits for a turn ends with its job, and a turn ends whatever its trial comes to', async () => {
  const takeTurn = createTurns();
  const ask = createAskForPicture(takeTurn);
  const end = await takeTurn();
  assert.ok(end);
  const stop = new AbortController();
  const bad = calls(failing('MODEL_UNAVAILABLE'), undefined, { signal: stop.signal });
  const waiting = ask('1', bad);
  await setImmediate();
  stop.abort(new Error('stopped'));
  await assert.rejects(waiting, { message: 'stopped' });
  assert.deepEqual(bad.noted, ['ask']);
  await end();
  await assert.rejects(ask('1', calls(failing('MODEL_UNAVAILABLE'), failing('MODEL_ABORTED'))));
  assert.ok(await takeTurn(), 'the turn is free');
});

test('a control that is refused or makes no sense is answered; a wrong key propagates', async () => {
  const bad = failing('MODEL_UNAVAILABLE');
  for (const said of [failing('MODEL_REJECTED', 400), failing('MODEL_INVALID_OUTPUT')]) {
    assert.ok('refusal' in (await createAsk()('1', calls(bad, said))));
  }
  const ask = createAsk();
  for (const said of [
    failing('MODEL_REJECTED', 401),
    failing('MODEL_ABORTED'),
    failing('MODEL_CLOSED'),
  ]) {
    await assert.rejects(ask('1', calls(bad, said)), ModelError);
    await assert.rejects(createAsk()('1', calls(said)), ModelError);
  }
});

test('what another picture brings down with it is tried without that one, in whatever process, and described', async () => {
  const takeTurn = createTurns();
  const processes = [createAskForPicture(takeTurn), createAskForPicture(takeTurn)];
  let isDown = false;
  /** A call that takes a while: the server is down for all once the poison has reached it. */
  async function call(name: string): Promise<string> {
    for (let turn = 0; turn < 3; turn += 1) {
      isDown ||= name === 'poison' && turn === 1;
      if (isDown) break;
      await setImmediate();
    }
    return isDown ? failing('MODEL_UNREACHABLE')() : name;
  }
  /** As a job does: what an outage met is asked for again when the server is back. */
  async function verdictOn(name: string, nth: number): Promise<string> {
    const ask = processes[nth % processes.length] ?? assert.fail();
    const asked = calls(
      () => call(name),
      () => call('control'),
    );
    for (let attempt = 1; attempt <= 50; attempt += 1) {
      try {
        const verdict = await ask(name, asked);
        return 'refusal' in verdict ? 'refused' : verdict.answer;
      } catch (error) {
        assert.ok(error instanceof ModelError, String(error));
        await setImmediate();
        isDown = false;
      }
    }
    return assert.fail(`no verdict on ${name}`);
  }
  const verdicts = await Promise.all(['poison', '1', '2', '3'].map(verdictOn));
  assert.deepEqual(verdicts, ['refused', '1', '2', '3']);
});
