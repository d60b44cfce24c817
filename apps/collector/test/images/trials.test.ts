import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ModelError, type ModelErrorCode } from '@oselya/model';
import { createAskForPicture, MOST_TRIALS } from '../../src/images/trials.ts';

const serverFailures = [
  'MODEL_UNAVAILABLE',
  'MODEL_TIMEOUT',
  'MODEL_UNREACHABLE',
  'MODEL_RATE_LIMITED',
] as const satisfies ModelErrorCode[];

const failing = (code: ModelErrorCode, status?: number) => () =>
  Promise.reject(new ModelError(code, `It is ${code}.`, status === undefined ? {} : { status }));

/** Calls that are noted by name, in their order. */
function calls(
  ask: () => Promise<string>,
  control: () => Promise<unknown> = () => Promise.resolve(),
  noted: string[] = [],
) {
  const noting =
    <Result>(name: string, call: () => Promise<Result>) =>
    () => {
      noted.push(name);
      return call();
    };
  const asking = noting('ask', ask);
  return {
    noted,
    ask(onRequest: () => void) {
      onRequest();
      return asking();
    },
    control: noting('control', control),
  };
}

test('what is answered, or refused, is asked for once and without a control', async () => {
  const good = calls(() => Promise.resolve('a kitchen'));
  assert.deepEqual(await createAskForPicture()('1', good), { answer: 'a kitchen' });
  assert.deepEqual(good.noted, ['ask']);
  const bad = calls(failing('MODEL_REJECTED', 413));
  const verdict = await createAskForPicture()('1', bad);
  assert.equal('refusal' in verdict && verdict.refusal.message, 'It is MODEL_REJECTED.');
  assert.deepEqual(bad.noted, ['ask']);
});

for (const code of serverFailures) {
  test(`${code}: refused after ${MOST_TRIALS} trials, each with an answer to the control before it`, async () => {
    const bad = calls(failing(code));
    const verdict = await createAskForPicture()('1', bad);
    assert.ok('refusal' in verdict);
    assert.equal(verdict.refusal.code, code);
    assert.match(verdict.refusal.message, new RegExp(`3 trials.*It is ${code}\\.$`));
    const trials = Array.from({ length: MOST_TRIALS }, () => ['control', 'ask']);
    assert.deepEqual(bad.noted, ['ask', ...trials.flat()]);
  });
}

test('while the control is not answered nothing is held against a picture', async () => {
  const ask = createAskForPicture();
  for (const code of [...serverFailures, 'MODEL_BREAKER_OPEN'] as const) {
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
  const ask = createAskForPicture();
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
  const ask = createAskForPicture();
  const open = failing('MODEL_BREAKER_OPEN');
  await assert.rejects(ask('1', calls(open, open)), { code: 'MODEL_BREAKER_OPEN' });
  const later = calls(failing('MODEL_UNAVAILABLE'));
  assert.ok('refusal' in (await ask('1', later)));
  assert.equal(later.noted[0], 'control');
  // One that no request was made for is not.
  const { control } = calls(open);
  await assert.rejects(ask('2', { ask: open, control }), { code: 'MODEL_BREAKER_OPEN' });
  const fresh = calls(() => Promise.resolve('seen'));
  await ask('2', fresh);
  assert.deepEqual(fresh.noted, ['ask']);
});

test('a breaker that opens within a trial holds nothing against the picture', async () => {
  const ask = createAskForPicture();
  const open = failing('MODEL_BREAKER_OPEN');
  for (let turn = 0; turn < 3 * MOST_TRIALS; turn += 1) {
    await assert.rejects(ask('1', calls(open)), { code: 'MODEL_BREAKER_OPEN' });
  }
});

test('a control that is refused or makes no sense is answered; a wrong key propagates', async () => {
  const bad = failing('MODEL_UNAVAILABLE');
  for (const said of [failing('MODEL_REJECTED', 400), failing('MODEL_INVALID_OUTPUT')]) {
    assert.ok('refusal' in (await createAskForPicture()('1', calls(bad, said))));
  }
  const ask = createAskForPicture();
  for (const said of [
    failing('MODEL_REJECTED', 401),
    failing('MODEL_ABORTED'),
    failing('MODEL_CLOSED'),
  ]) {
    await assert.rejects(ask('1', calls(bad, said)), ModelError);
    await assert.rejects(createAskForPicture()('1', calls(said)), ModelError);
  }
});

test('what another picture brings down with it is tried without that one, and described', async () => {
  const ask = createAskForPicture();
  let isDown = false;
  /** A call that takes a while: the server is down for all once the poison has reached it. */
  async function call(name: string): Promise<string> {
    for (let turn = 0; turn < 3; turn += 1) {
      isDown ||= name === 'poison' && turn === 1;
      if (isDown) break;
      await new Promise(setImmediate);
    }
    return isDown ? failing('MODEL_UNREACHABLE')() : name;
  }
  /** As a job does: what an outage met is asked for again when the server is back. */
  async function verdictOn(name: string): Promise<string> {
    const asked = calls(
      () => call(name),
      () => call('control'),
    );
    for (;;) {
      try {
        const verdict = await ask(name, asked);
        return 'refusal' in verdict ? 'refused' : verdict.answer;
      } catch {
        await new Promise(setImmediate);
        isDown = false;
      }
    }
  }
  const verdicts = await Promise.all(['poison', '1', '2', '3'].map(verdictOn));
  assert.deepEqual(verdicts, ['refused', '1', '2', '3']);
});
