import assert from 'node:assert/strict';
import { suite, test, type TestContext } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { type BreakerState, ModelError, type ModelErrorCode } from '../src/index.ts';
import { type ScriptedResponse, createEmbeddings } from '../src/testing.ts';
import { createGate, type Gate } from '../src/gate.ts';
import { computeBackoffMs, createRetry } from '../src/retry.ts';
import {
  API_KEY,
  ask,
  createChat,
  expectFailure,
  failure,
  FLAT_JSON,
  look,
  startScene,
  type ScriptEntry,
} from './support.ts';

suite('attempts', () => {
  const retriedResponses: [name: string, answer: ScriptedResponse, code: ModelErrorCode][] = [
    ['a crashed runner of Ollama', failure.crash, 'MODEL_UNAVAILABLE'],
    ['llama.cpp while it loads', failure.loading, 'MODEL_UNAVAILABLE'],
    ['the page of a proxy', failure.htmlPage, 'MODEL_UNAVAILABLE'],
    ['408', { status: 408, body: '' }, 'MODEL_UNAVAILABLE'],
    ['a reset connection', 'reset', 'MODEL_UNREACHABLE'],
    ['a connection broken in the middle', 'cut', 'MODEL_UNREACHABLE'],
  ];
  for (const [name, answer, code] of retriedResponses) {
    test(`${name} is attempted three times at most`, async (t) => {
      const { client, server, outcomes } = await startScene(t, [
        answer,
        answer,
        createChat(FLAT_JSON),
      ]);
      assert.equal((await ask(client)).usage.calls, 3);
      server.play(answer);
      assert.equal((await expectFailure(ask(client), code)).retryable, true);
      assert.deepEqual(outcomes(), [code, code, 'ok', code, code, code]);
    });
  }

  const finalResponses: [
    name: string,
    answer: ScriptedResponse,
    status: number,
    message: RegExp,
  ][] = [
    ['a missing model', failure.missingModel, 404, /try pulling it first\. Check/],
    ['a wrong parameter', { status: 400, body: { error: 'no such key' } }, 400, /no such key/],
    [
      'a wrong key',
      { status: 401, body: { error: `bad ${API_KEY}` } },
      401,
      /bad \[key\]\. Check MODEL_API_KEY/,
    ],
    ['a redirect', { status: 307, headers: { location: '/x' }, body: '' }, 307, /MODEL_BASE_URL/],
  ];
  for (const [name, answer, status, message] of finalResponses) {
    test(`${name} is attempted once`, async (t) => {
      const { client, server, events } = await startScene(t, [answer]);
      const error = await expectFailure(ask(client), 'MODEL_REJECTED');
      assert.deepEqual([error.status, error.retryable, error.cause], [status, false, undefined]);
      assert.match(error.message, message);
      assert.deepEqual([server.requests.length, events.length], [1, 1]);
    });
  }

  test('The delay doubles with each failure up to the maximum, and half of it is random', () => {
    const options = { initialDelayMs: 500, maxDelayMs: 3000 };
    for (const [failures, fullMs] of [
      [1, 500],
      [2, 1000],
      [3, 2000],
      [4, 3000],
      [100, 3000],
    ] as const) {
      const delays = Array.from({ length: 200 }, () => computeBackoffMs(failures, options));
      assert.ok(delays.every((delay) => delay >= fullMs / 2 && delay <= fullMs));
      assert.ok(new Set(delays).size > 1);
    }
  });

  test('A Retry-After within the deadline is followed, and a longer one fails the call', async (t) => {
    const delayedResponse = failure.tooMany({ 'retry-after-ms': '30', 'retry-after': '600' });
    const script = [delayedResponse, createChat(FLAT_JSON)];
    const { client, server, outcomes } = await startScene(t, script, { timeoutMs: 3000 });
    await ask(client);
    assert.deepEqual(outcomes(), ['MODEL_RATE_LIMITED', 'ok']);
    // The deadline allows one such delay.
    server.play(failure.tooMany({ 'retry-after-ms': '1600' }));
    await expectFailure(ask(client), 'MODEL_RATE_LIMITED');
    assert.equal(server.requests.length, 4);
    server.play(failure.tooMany({ 'retry-after': '600' }));
    assert.equal((await expectFailure(ask(client), 'MODEL_RATE_LIMITED')).retryAfterMs, 600_000);
    assert.equal(server.requests.length, 5);
  });

  test('A Retry-After beyond the deadline prevents a second attempt', async () => {
    const retry = createRetry({ timeoutMs: 60_000, attempts: 3, initialDelayMs: 1, maxDelayMs: 1 });
    const retryAfterMs = 600_000;
    const error = new ModelError('MODEL_RATE_LIMITED', 'Too many requests.', { retryAfterMs });
    let attempts = 0;
    const run = () => {
      attempts += 1;
      return Promise.reject(error);
    };
    await assert.rejects(retry(undefined, run), error);
    assert.equal(attempts, 1);
  });

  test('The deadline ends a request without an answer', async (t) => {
    const { client, outcomes } = await startScene(t, ['silence'], { timeoutMs: 500 });
    const error = await expectFailure(ask(client), 'MODEL_TIMEOUT');
    assert.match(error.message, /within 500 ms.*MODEL_TIMEOUT_MS/);
    assert.deepEqual(outcomes(), ['MODEL_TIMEOUT']);
  });

  test('One deadline covers all attempts and the repair', async (t) => {
    const script: ScriptedResponse[] = [failure.crash, createChat('nonsense'), 'silence'];
    const { client, server } = await startScene(t, script, { timeoutMs: 1_500 });
    await expectFailure(ask(client), 'MODEL_TIMEOUT');
    assert.equal(server.requests.length, 3);
  });

  test('An abort ends a request or a wait, without a failure for the breaker', async (t) => {
    const HOUR_MS = 3_600_000;
    const { client, server } = await startScene(t, ['silence', failure.crash], {
      timeoutMs: 2 * HOUR_MS,
      breaker: { failures: 2 },
      retry: { initialDelayMs: HOUR_MS, maxDelayMs: HOUR_MS },
    });
    for (const requests of [1, 2]) {
      const controller = new AbortController();
      const call = ask(client, controller.signal);
      await t.waitFor(() => assert.equal(server.requests.length, requests));
      const reason = new Error('stopping');
      controller.abort(reason);
      assert.equal((await expectFailure(call, 'MODEL_ABORTED')).cause, reason);
      assert.equal(client.breaker.state, 'closed');
    }
    await expectFailure(ask(client, AbortSignal.abort()), 'MODEL_ABORTED');
    assert.equal(server.requests.length, 2);
  });
});

/** Starts a client whose calls make one attempt each. */
function startSingle(t: TestContext, script: ScriptEntry[], halfOpenAfterMs = 3_600_000) {
  return startScene(t, script, { retry: { attempts: 1 }, breaker: { halfOpenAfterMs } });
}

const repeat = (times: number, answer: ScriptedResponse) =>
  Array.from({ length: times }, () => answer);

suite('the closed breaker', () => {
  test('The breaker opens after five failed requests in a row, and then fails calls without a request', async (t) => {
    const { client, server, events } = await startScene(t, [failure.crash]);
    const states: BreakerState[] = [];
    client.breaker.onChange((state) => states.push(state));
    client.breaker.onChange(() => assert.fail('it has unsubscribed'))();

    await expectFailure(ask(client), 'MODEL_UNAVAILABLE');
    assert.deepEqual([client.breaker.state, client.breaker.isOpen], ['closed', false]);
    // The second call fails twice and then finds the breaker open. It must throw the error of its last request.
    await expectFailure(ask(client), 'MODEL_UNAVAILABLE');
    assert.deepEqual([client.breaker.state, client.breaker.isOpen], ['open', true]);
    assert.equal((await expectFailure(ask(client), 'MODEL_BREAKER_OPEN')).retryable, true);
    assert.deepEqual([server.requests.length, events.length, states], [5, 5, ['open']]);
  });

  test('Each class of infrastructure failure counts, and a success resets the count', async (t) => {
    const conflict = { status: 409, body: '' };
    const failures = ['reset', failure.tooMany({}), 'cut', conflict] as const;
    const { client } = await startSingle(t, [
      ...failures,
      createChat(FLAT_JSON),
      ...failures,
      failure.crash,
    ]);
    for (let call = 0; call < 9; call += 1) await ask(client).catch(() => undefined);
    assert.equal(client.breaker.state, 'closed');
    await expectFailure(ask(client), 'MODEL_UNAVAILABLE');
    assert.equal(client.breaker.state, 'open');
  });

  test('Timeouts open the breaker', async (t) => {
    const options = { timeoutMs: 40, breaker: { failures: 2 } };
    const { client } = await startScene(t, ['silence'], options);
    for (const _ of [1, 2]) await expectFailure(ask(client), 'MODEL_TIMEOUT');
    assert.equal(client.breaker.state, 'open');
  });

  test('Rejected requests and invalid or truncated answers neither open nor reset the breaker', async (t) => {
    const nonsense = createChat('nonsense');
    const otherCalls = [failure.missingModel, nonsense, nonsense, createChat(FLAT_JSON, 'length')];
    const script = [...otherCalls, ...repeat(4, failure.crash), ...otherCalls, 'reset' as const];
    const { client } = await startSingle(t, script);
    // Two of the responses in `otherCalls` belong to one call: the completion and its repair.
    for (let call = 0; call < 3 + 4 + 3; call += 1) await ask(client).catch(() => undefined);
    assert.equal(client.breaker.state, 'closed');
    await expectFailure(ask(client), 'MODEL_UNREACHABLE');
    assert.equal(client.breaker.state, 'open');
  });

  test('The breaker opens for a Retry-After that exceeds the deadline of a call', async (t) => {
    const script = [failure.tooMany({ 'retry-after-ms': '300' }), createChat(FLAT_JSON)];
    const options = { timeoutMs: 250, breaker: { halfOpenAfterMs: 1 } };
    const { client, server } = await startScene(t, script, options);
    await expectFailure(ask(client), 'MODEL_RATE_LIMITED');
    await expectFailure(ask(client), 'MODEL_BREAKER_OPEN');
    await t.waitFor(() => assert.equal(client.breaker.state, 'half-open'));
    await ask(client);
    assert.deepEqual([client.breaker.state, server.requests.length], ['closed', 2]);
  });

  type Client = Awaited<ReturnType<typeof startScene>>['client'];
  const visionAndEmbeddings: [
    name: string,
    call: (client: Client) => Promise<unknown>,
    mark: string,
  ][] = [
    ['embeddings', (client) => client.embed(['a']), '"input"'],
    ['vision', look, 'image_url'],
  ];
  for (const [name, call, mark] of visionAndEmbeddings) {
    test(`Chat does not hide an outage of ${name} at the same URL`, async (t) => {
      let isAway = true;
      const script: ScriptEntry = ({ body }) => {
        if (!JSON.stringify(body).includes(mark)) return createChat(FLAT_JSON);
        if (isAway) return 'reset';
        return name === 'vision' ? createChat(FLAT_JSON) : createEmbeddings([[1, 2, 3]]);
      };
      const { client } = await startSingle(t, [script], 30);
      const states: BreakerState[] = [];
      client.breaker.onChange((state) => states.push(state));
      for (let index = 0; index < 5; index += 1) {
        assert.equal(client.breaker.state, 'closed');
        await ask(client);
        await expectFailure(call(client), 'MODEL_UNREACHABLE');
      }
      assert.ok(await ask(client), 'chat continues');
      await t.waitFor(() => assert.equal(client.breaker.state, 'half-open'));
      await ask(client);
      assert.equal(client.breaker.state, 'half-open', 'a chat request is not a probe');
      isAway = false;
      await call(client);
      assert.deepEqual(states, ['open', 'half-open', 'closed']);
    });
  }
});

/** Starts a client, opens its breaker, and waits until a probe is due. */
async function startHalfOpen(t: TestContext) {
  const scene = await startSingle(t, [failure.crash], 30);
  const { breaker } = scene.client;
  const isHalfOpen = () => t.waitFor(() => assert.equal(breaker.state, 'half-open'));
  for (let call = 0; call < 5; call += 1)
    await expectFailure(ask(scene.client), 'MODEL_UNAVAILABLE');
  await isHalfOpen();
  return { ...scene, isHalfOpen };
}

suite('the half-open breaker', () => {
  test('A half-open breaker permits one of fifty callers', async (t) => {
    const { client, server } = await startHalfOpen(t);
    const answer = Promise.withResolvers<ScriptedResponse>();
    server.play(() => answer.promise);
    const requestsBefore = server.requests.length;
    assert.equal(client.breaker.isOpen, false, 'a probe is due and not in progress');
    const [probe, ...otherCalls] = Array.from({ length: 50 }, () => ask(client));
    for (const call of otherCalls) await expectFailure(call, 'MODEL_BREAKER_OPEN');
    assert.deepEqual([client.breaker.state, client.breaker.isOpen], ['half-open', true]);
    answer.resolve(createChat(FLAT_JSON));
    assert.ok(await probe);
    assert.deepEqual([client.breaker.state, client.breaker.isOpen], ['closed', false]);
    assert.equal(server.requests.length - requestsBefore, 1);
  });

  test('A half-open breaker opens again when the probe fails, as the same outage', async (t) => {
    const { client, server, isHalfOpen } = await startHalfOpen(t);
    const { outage } = await expectFailure(ask(client), 'MODEL_UNAVAILABLE');
    assert.ok(outage);
    await isHalfOpen();
    assert.equal((await expectFailure(ask(client), 'MODEL_UNAVAILABLE')).outage, outage);
    await isHalfOpen();
    server.play(createChat(FLAT_JSON), 'reset');
    await ask(client);
    assert.notEqual((await expectFailure(ask(client), 'MODEL_UNREACHABLE')).outage, outage);
  });

  test('A half-open breaker closes when the server rejects the probe', async (t) => {
    const { client, server } = await startHalfOpen(t);
    server.play(failure.tooLong);
    assert.equal((await expectFailure(ask(client), 'MODEL_INPUT_TOO_LARGE')).outage, undefined);
    assert.equal(client.breaker.state, 'closed');
  });
});

/** Enters the gate with concurrent requests, and aborts the waiting ones. Returns functions that end the others. */
async function enterGate(gate: Gate, count: number) {
  const controller = new AbortController();
  const context = { signal: controller.signal, getInterruption: () => undefined };
  const entries = Array.from({ length: count }, () => gate.enter(context));
  controller.abort();
  const results = await Promise.allSettled(entries);
  return results.flatMap((result) => (result.status === 'fulfilled' ? [result.value] : []));
}

suite('a context too small for concurrent requests', () => {
  test('A server with a full context gets fewer concurrent requests, and answers all', async (t) => {
    const maxRequests = 2;
    let inProgress = 0;
    let maxInProgress = 0;
    const script: ScriptEntry = async () => {
      inProgress += 1;
      maxInProgress = Math.max(maxInProgress, inProgress);
      const isFull = inProgress > maxRequests;
      await sleep(20);
      inProgress -= 1;
      return isFull ? failure.contextFull : createChat(FLAT_JSON);
    };
    const { client, outcomes } = await startScene(t, [script], { breaker: { failures: 2 } });
    await Promise.all(Array.from({ length: 4 }, () => ask(client)));
    assert.deepEqual([maxInProgress, client.breaker.state], [4, 'closed']);
    maxInProgress = 0;
    const outcomesBefore = outcomes().length;
    await Promise.all(Array.from({ length: 12 }, () => ask(client)));
    assert.ok(maxInProgress <= maxRequests, `${maxInProgress} concurrent`);
    assert.deepEqual(new Set(outcomes().slice(outcomesBefore)), new Set(['ok']));
  });

  test('The limit doubles each minute up to 64 requests, and then ends', async (t) => {
    let now = 0;
    t.mock.method(performance, 'now', () => now);
    const gate = createGate();
    const [failRequest, ...otherRequests] = await enterGate(gate, 4);
    failRequest?.(new ModelError('MODEL_CONTEXT_FULL', 'The context is full.'));
    for (const endRequest of otherRequests) endRequest();
    const counts: number[] = [];
    for (; now <= 360_000; now += 60_000) {
      const requests = await enterGate(gate, 200);
      counts.push(requests.length);
      for (const endRequest of requests) endRequest();
    }
    assert.deepEqual(counts, [2, 4, 8, 16, 32, 64, 200]);
  });

  test('A request beyond the context fails only its call', async (t) => {
    const { client, server } = await startScene(t, [failure.contextFull]);
    const firstError = await expectFailure(ask(client), 'MODEL_CONTEXT_FULL');
    const secondError = await expectFailure(ask(client), 'MODEL_CONTEXT_FULL');
    assert.ok(firstError.outage && secondError.outage && firstError.outage !== secondError.outage);
    assert.deepEqual([server.requests.length, client.breaker.state], [6, 'closed']);
  });
});
