import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { ModelError } from '../../src/errors.ts';
import { createGate } from '../../src/resilience/gate.ts';
import { chat } from '../server-answers.ts';
import { ask, failsWith, FLAT, startScene } from '../test-client.ts';

const FULL = {
  status: 500,
  body: { error: { code: 500, message: 'Context size has been exceeded.', type: 'server_error' } },
};

suite('a server whose context is too small for its requests together', () => {
  test('is sent fewer at once, and answers all of them', async (t) => {
    const room = 2;
    let inProgress = 0;
    let most = 0;
    const { client, events } = await startScene(
      t,
      [
        async () => {
          inProgress += 1;
          most = Math.max(most, inProgress);
          const isFull = inProgress > room;
          await new Promise((resolve) => setTimeout(resolve, 5));
          inProgress -= 1;
          return isFull ? FULL : chat.llamaCpp(FLAT);
        },
      ],
      { breaker: { failures: 2 } },
    );
    await Promise.all(Array.from({ length: 4 }, () => ask(client)));
    assert.equal(most, 4, 'nothing is held back before');
    assert.equal(client.breaker.state, 'closed');
    most = 0;
    const failed = events.filter(({ outcome }) => outcome !== 'ok').length;
    await Promise.all(Array.from({ length: 12 }, () => ask(client)));
    assert.ok(most <= room, `${most} at once`);
    assert.equal(events.filter(({ outcome }) => outcome !== 'ok').length, failed);
  });

  test('and for a single request is an error of its own for each call, and no outage of others', async (t) => {
    const { client, server } = await startScene(t, [FULL]);
    const first = await failsWith(ask(client), 'MODEL_CONTEXT_FULL');
    const second = await failsWith(ask(client), 'MODEL_CONTEXT_FULL');
    assert.ok(first.outage && second.outage && first.outage !== second.outage);
    assert.equal(first.retryable, true);
    assert.equal(server.requests.length, 6);
    assert.equal(client.breaker.state, 'closed');
  });
});

suite('a request that waits at a gate', () => {
  const late = new ModelError('MODEL_TIMEOUT', 'late');
  const aborted = new ModelError('MODEL_ABORTED', 'enough');
  for (const [name, interruption, code] of [
    ['whose time is over is told why, at no cost', late, 'MODEL_CONTEXT_FULL'],
    ['that is given up is told so', aborted, 'MODEL_ABORTED'],
  ] as const) {
    test(`${name}, and is not sent`, async () => {
      const gate = createGate();
      const ended = new AbortController();
      const context = { signal: ended.signal, interruption: () => interruption };
      (await gate.enter(context))(new ModelError('MODEL_CONTEXT_FULL', 'full'));
      const leave = await gate.enter(context);
      let isSent = false;
      const waiting = gate.run(context, async () => (isSent = true));
      ended.abort();
      const error = await failsWith(waiting, code);
      assert.equal(error.outage, undefined);
      leave();
      assert.equal(isSent, false);
      (await gate.enter(context))();
    });
  }
});

test('a gate opens again step by step', async () => {
  let now = 0;
  const gate = createGate({ clock: () => now });
  const signal = new AbortController().signal;
  const context = { signal, interruption: () => undefined };
  const leaves = await Promise.all(Array.from({ length: 8 }, () => gate.enter(context)));
  const full = new ModelError('MODEL_CONTEXT_FULL', 'full');
  now = 1;
  leaves[0]?.(full);
  for (const leave of leaves.slice(1)) leave();

  /** How many may enter at once. */
  async function width(): Promise<number> {
    const entered: ((error?: unknown) => void)[] = [];
    for (let nth = 0; nth < 100; nth += 1)
      void gate.enter(context).then((leave) => entered.push(leave));
    await new Promise(setImmediate);
    const count = entered.length;
    while (entered.length > 0) {
      entered.shift()?.();
      await new Promise(setImmediate);
    }
    return count;
  }
  const widths: number[] = [];
  for (const minute of [0, 1, 2, 3, 4, 5]) {
    now = 1 + minute * 60_000;
    widths.push(await width());
  }
  assert.deepEqual(widths, [4, 8, 16, 32, 64, 100]);
});
