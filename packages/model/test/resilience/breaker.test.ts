import assert from 'node:assert/strict';
import { suite, test, type TestContext } from 'node:test';
import type { BreakerState } from '../../src/index.ts';
import type { Answer } from '../scripted-server.ts';
import { chat, failure } from '../server-answers.ts';
import { ask, failsWith, FLAT, startScene } from '../test-client.ts';

const HOUR_MS = 3_600_000;

/** A client whose calls make one attempt each, so that calls and requests are the same. */
function startSingle(t: TestContext, script: Answer[], halfOpenAfterMs = HOUR_MS) {
  return startScene(t, script, { retry: { attempts: 1 }, breaker: { halfOpenAfterMs } });
}

suite('the breaker opens', () => {
  test('after five failed requests in a row, and then refuses without asking', async (t) => {
    const { client, server, events } = await startScene(t, [failure.ollamaCrash], {
      retry: { initialDelayMs: 1, maxDelayMs: 2 },
    });
    const states: BreakerState[] = [];
    client.breaker.onChange((state) => states.push(state));

    await failsWith(ask(client), 'MODEL_UNAVAILABLE');
    assert.equal(client.breaker.state, 'closed');
    // The second call fails twice, and its third attempt already meets the open breaker.
    await failsWith(ask(client), 'MODEL_BREAKER_OPEN');
    assert.equal(client.breaker.state, 'open');
    assert.equal(server.requests.length, 5);

    const refused = await failsWith(ask(client), 'MODEL_BREAKER_OPEN');
    assert.equal(refused.retryable, true);
    await failsWith(client.embed(['a']), 'MODEL_BREAKER_OPEN');
    assert.equal(server.requests.length, 5);
    assert.equal(events.length, 5);
    assert.deepEqual(states, ['open']);
  });

  test('for each class of infrastructure failure', async (t) => {
    const { client } = await startSingle(t, [
      failure.ollamaCrash,
      'reset',
      failure.tooMany({}),
      'cut',
      { status: 409, body: '' },
    ]);
    for (let call = 0; call < 5; call += 1) {
      assert.equal(client.breaker.state, 'closed');
      await ask(client).catch(() => undefined);
    }
    assert.equal(client.breaker.state, 'open');
  });

  test('for timeouts', async (t) => {
    const { client } = await startScene(t, ['silence'], {
      timeoutMs: 40,
      breaker: { failures: 2 },
    });
    await failsWith(ask(client), 'MODEL_TIMEOUT');
    await failsWith(ask(client), 'MODEL_TIMEOUT');
    assert.equal(client.breaker.state, 'open');
  });

  test('not when a success lies between', async (t) => {
    const four = Array.from({ length: 4 }, () => failure.ollamaCrash);
    const { client } = await startSingle(t, [...four, chat.ollama(FLAT), ...four]);
    for (let call = 0; call < 9; call += 1) await ask(client).catch(() => undefined);
    assert.equal(client.breaker.state, 'closed');
  });

  test('not for refused requests, invalid or truncated answers, which reset nothing', async (t) => {
    const four = Array.from({ length: 4 }, () => failure.ollamaCrash);
    const others = [
      failure.vllmBadRequest,
      failure.ollamaMissingModel,
      chat.ollama('nonsense'),
      chat.ollama('nonsense'),
      chat.ollama(FLAT, 'length'),
    ];
    const { client } = await startSingle(t, [...others, ...others, ...four, ...others, 'reset']);
    // Two of the requests in `others` belong to one call: the answer and its repair.
    for (let call = 0; call < 8 + 4 + 4; call += 1) await ask(client).catch(() => undefined);
    assert.equal(client.breaker.state, 'closed');
    await failsWith(ask(client), 'MODEL_UNREACHABLE');
    assert.equal(client.breaker.state, 'open');
  });
});

/** Opens the breaker of a client that probes after a moment, and waits until a probe is due. */
async function startHalfOpen(t: TestContext) {
  const scene = await startSingle(t, [failure.ollamaCrash], 30);
  const states: BreakerState[] = [];
  const halfOpen = new Promise<void>((resolve) => {
    scene.client.breaker.onChange((state) => {
      states.push(state);
      if (state === 'half-open') resolve();
    });
  });
  for (let call = 0; call < 5; call += 1) await failsWith(ask(scene.client), 'MODEL_UNAVAILABLE');
  await halfOpen;
  assert.equal(scene.client.breaker.state, 'half-open');
  return { ...scene, states };
}

suite('the half-open breaker', () => {
  test('says so without being asked, and lets one of fifty callers through', async (t) => {
    const { client, server, states } = await startHalfOpen(t);
    const answer = Promise.withResolvers<Answer>();
    server.play(() => answer.promise);
    const before = server.requests.length;

    const calls = Array.from({ length: 50 }, () => ask(client));
    const [probe, ...others] = calls;
    for (const other of others) await failsWith(other, 'MODEL_BREAKER_OPEN');
    assert.equal(client.breaker.state, 'half-open');
    answer.resolve(chat.ollama(FLAT));
    assert.ok(await probe);

    assert.equal(server.requests.length - before, 1);
    assert.equal(client.breaker.state, 'closed');
    assert.deepEqual(states, ['open', 'half-open', 'closed']);
    await ask(client);
    assert.equal(server.requests.length - before, 2);
  });

  test('opens again when the probe fails', async (t) => {
    const { client, server, states } = await startHalfOpen(t);
    const before = server.requests.length;
    await failsWith(ask(client), 'MODEL_UNAVAILABLE');
    assert.equal(server.requests.length - before, 1);
    assert.deepEqual(states.slice(0, 3), ['open', 'half-open', 'open']);
  });

  test('closes when the server refuses the probe, since it is there', async (t) => {
    const { client, server } = await startHalfOpen(t);
    server.play(failure.vllmBadRequest);
    await failsWith(ask(client), 'MODEL_REJECTED');
    assert.equal(client.breaker.state, 'closed');
  });

  test('opens again when the probe is given up by its caller', async (t) => {
    const { client, server, states } = await startHalfOpen(t);
    server.play('silence');
    const before = server.requests.length;
    const controller = new AbortController();
    const probe = ask(client, controller.signal);
    await t.waitFor(() => assert.equal(server.requests.length - before, 1));
    controller.abort();
    await failsWith(probe, 'MODEL_ABORTED');
    assert.deepEqual(states.slice(0, 3), ['open', 'half-open', 'open']);
  });

  test('forgets a listener that was taken away', async (t) => {
    const { client } = await startSingle(t, [failure.ollamaCrash]);
    const states: BreakerState[] = [];
    const forget = client.breaker.onChange((state) => states.push(state));
    forget();
    for (let call = 0; call < 5; call += 1) await failsWith(ask(client), 'MODEL_UNAVAILABLE');
    assert.equal(client.breaker.state, 'open');
    assert.deepEqual(states, []);
  });
});
