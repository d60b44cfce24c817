import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { createCallPolicy } from '../../src/resilience/call-policy.ts';
import { ModelError } from '../../src/errors.ts';
import type { Answer } from '../scripted-server.ts';
import { chat, failure } from '../server-answers.ts';
import { API_KEY, ask, failsWith, FLAT, startScene } from '../test-client.ts';

suite('failures that are tried again', () => {
  const failures: [
    name: string,
    answer: Answer,
    code: 'MODEL_UNAVAILABLE' | 'MODEL_UNREACHABLE',
  ][] = [
    ['a crashed runner of Ollama', failure.ollamaCrash, 'MODEL_UNAVAILABLE'],
    ['llama.cpp while it loads', failure.llamaCppLoading, 'MODEL_UNAVAILABLE'],
    ['the page of a proxy', failure.htmlPage, 'MODEL_UNAVAILABLE'],
    ['408', { status: 408, body: '' }, 'MODEL_UNAVAILABLE'],
    ['409', { status: 409, body: '' }, 'MODEL_UNAVAILABLE'],
    ['425', { status: 425, body: '' }, 'MODEL_UNAVAILABLE'],
    ['599', { status: 599, body: '' }, 'MODEL_UNAVAILABLE'],
    ['a reset connection', 'reset', 'MODEL_UNREACHABLE'],
    ['a connection broken in the middle', 'cut', 'MODEL_UNREACHABLE'],
  ];
  for (const [name, answer, code] of failures) {
    test(`${name}: exactly three attempts`, async (t) => {
      const { client, server, events } = await startScene(t, [answer]);
      const error = await failsWith(ask(client), code);
      assert.equal(error.retryable, true);
      assert.equal(server.requests.length, 3);
      assert.deepEqual(
        events.map(({ outcome }) => outcome),
        [code, code, code],
      );
    });

    test(`${name}: success at the third attempt`, async (t) => {
      const { client, server } = await startScene(t, [answer, answer, chat.ollama(FLAT)]);
      assert.equal((await ask(client)).usage.calls, 3);
      assert.equal(server.requests.length, 3);
    });
  }

  test('nobody listening is MODEL_UNREACHABLE and names the reason', async (t) => {
    const { client, events } = await startScene(t, [], { baseUrl: 'http://127.0.0.1:1/v1' });
    const error = await failsWith(ask(client), 'MODEL_UNREACHABLE');
    assert.match(error.message, /ECONNREFUSED.*MODEL_BASE_URL/);
    assert.equal(events.length, 3);
  });
});

suite('failures that are final', () => {
  const failures: [name: string, answer: Answer, status: number, said: RegExp][] = [
    ['Ollama without the model', failure.ollamaMissingModel, 404, /try pulling it first\. Check/],
    ['a wrong parameter', { status: 400, body: { error: 'no such key' } }, 400, /no such key/],
    ['a wrong key', { status: 401, body: { error: 'nope' } }, 401, /nope\. Check MODEL_API_KEY/],
    ['a redirect', { status: 307, headers: { location: '/x' }, body: '' }, 307, /MODEL_BASE_URL/],
  ];
  for (const [name, answer, status, said] of failures) {
    test(`${name}: one attempt`, async (t) => {
      const { client, server, events } = await startScene(t, [answer]);
      const error = await failsWith(ask(client), 'MODEL_REJECTED');
      assert.equal(error.status, status);
      assert.equal(error.retryable, false);
      assert.match(error.message, said);
      assert.equal(server.requests.length, 1);
      assert.equal(events.length, 1);
    });
  }

  test('a server that repeats the key does not get it into the message', async (t) => {
    const body = { error: { message: `Incorrect API key provided: ${API_KEY}.` } };
    const { client } = await startScene(t, [{ status: 401, body }]);
    const error = await failsWith(ask(client), 'MODEL_REJECTED');
    assert.match(error.message, /Incorrect API key provided: \[key\]\./);
    assert.equal(error.cause, undefined);
  });
});

test('the wait grows with each attempt, and a part of it is random', async (t) => {
  const random = t.mock.method(Math, 'random', () => 0.75);
  const call = createCallPolicy({
    timeoutMs: 60_000,
    attempts: 4,
    initialDelayMs: 40,
    maxDelayMs: 10_000,
  });
  const attempts: number[] = [];
  const outcome = call(undefined, async () => {
    attempts.push(performance.now());
    throw new ModelError('MODEL_UNAVAILABLE', 'down');
  });
  await failsWith(outcome, 'MODEL_UNAVAILABLE');
  const waits = attempts.slice(1).map((at, index) => at - (attempts[index] ?? 0));
  // Half of 40, 80 and 160 ms, and three quarters of the other half; a timer may be a millisecond early.
  assert.deepEqual(
    [35, 70, 140].map((leastMs, index) => (waits[index] ?? 0) >= leastMs - 1),
    [true, true, true],
    waits.join(', '),
  );
  assert.equal(random.mock.callCount(), 4);
});

suite('waiting as the server asks', () => {
  test('a Retry-After within the deadline is waited for', async (t) => {
    const { client, server, events } = await startScene(t, [
      failure.tooMany({ 'retry-after-ms': '30', 'retry-after': '600' }),
      chat.vllm(FLAT),
    ]);
    const startedAt = performance.now();
    await ask(client);
    // A lower bound: the wait asked for is many times the backoff of at most 4 ms.
    assert.ok(performance.now() - startedAt >= 30);
    assert.equal(server.requests.length, 2);
    assert.deepEqual(
      events.map(({ outcome }) => outcome),
      ['MODEL_RATE_LIMITED', 'ok'],
    );
  });

  const late = { seconds: '600', 'an HTTP date': 'Fri, 31 Dec 2100 23:59:59 GMT' };
  for (const [name, value] of Object.entries(late)) {
    test(`one that outlasts the deadline fails at once: ${name}`, async (t) => {
      const { client, server } = await startScene(t, [failure.tooMany({ 'retry-after': value })]);
      const error = await failsWith(ask(client), 'MODEL_RATE_LIMITED');
      assert.equal(error.retryable, true);
      assert.ok((error.retryAfterMs ?? 0) >= 600_000);
      assert.equal(server.requests.length, 1);
    });
  }
});

suite('the deadline', () => {
  test('ends a request that is never answered', async (t) => {
    const { client, server, events } = await startScene(t, ['silence'], { timeoutMs: 500 });
    const error = await failsWith(ask(client), 'MODEL_TIMEOUT');
    assert.match(error.message, /within 500 ms.*MODEL_TIMEOUT_MS/);
    assert.equal(error.retryable, true);
    assert.equal(server.requests.length, 1);
    assert.deepEqual(
      events.map(({ outcome }) => outcome),
      ['MODEL_TIMEOUT'],
    );
  });

  test('is one for all attempts and the repair', async (t) => {
    const { client, server } = await startScene(
      t,
      [failure.ollamaCrash, chat.ollama('nonsense'), 'silence'],
      { timeoutMs: 1_500 },
    );
    await failsWith(ask(client), 'MODEL_TIMEOUT');
    assert.equal(server.requests.length, 3);
  });
});

suite('the caller', () => {
  test('who gives up ends the request, without another and without a count', async (t) => {
    const { client, server, events } = await startScene(t, ['silence'], {
      breaker: { failures: 1 },
    });
    const controller = new AbortController();
    const call = ask(client, controller.signal);
    await t.waitFor(() => assert.equal(server.requests.length, 1));
    const reason = new Error('stopping');
    controller.abort(reason);
    const error = await failsWith(call, 'MODEL_ABORTED');
    assert.equal(error.retryable, false);
    assert.equal(error.cause, reason);
    assert.equal(server.requests.length, 1);
    assert.equal(client.breaker.state, 'closed');
    assert.deepEqual(
      events.map(({ outcome }) => outcome),
      ['MODEL_ABORTED'],
    );
  });

  test('who gave up before makes no request', async (t) => {
    const { client, server } = await startScene(t, ['silence']);
    await failsWith(ask(client, AbortSignal.abort()), 'MODEL_ABORTED');
    assert.equal(server.requests.length, 0);
  });

  test('who gives up between attempts does not wait for the next', async () => {
    const hour = 3_600_000;
    const call = createCallPolicy({
      timeoutMs: 2 * hour,
      attempts: 3,
      initialDelayMs: hour,
      maxDelayMs: hour,
    });
    const controller = new AbortController();
    let attempts = 0;
    const outcome = call(controller.signal, async () => {
      attempts += 1;
      setImmediate(() => controller.abort());
      throw new ModelError('MODEL_UNAVAILABLE', 'down');
    });
    await failsWith(outcome, 'MODEL_ABORTED');
    assert.equal(attempts, 1);
  });
});
