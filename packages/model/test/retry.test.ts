import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { ModelError, type ModelErrorCode } from '../src/index.ts';
import { createRetry } from '../src/retry.ts';
import type { ScriptedResponse } from '../src/testing.ts';
import { retryAfterMs } from '../src/transport.ts';
import { API_KEY, ask, chat, failsWith, failure, FLAT, startScene } from './support.ts';

suite('retried failures', () => {
  const failures: [name: string, answer: ScriptedResponse, code: ModelErrorCode][] = [
    ['a crashed runner of Ollama', failure.crash, 'MODEL_UNAVAILABLE'],
    ['llama.cpp while it loads', failure.loading, 'MODEL_UNAVAILABLE'],
    ['the page of a proxy', failure.htmlPage, 'MODEL_UNAVAILABLE'],
    ['408', { status: 408, body: '' }, 'MODEL_UNAVAILABLE'],
    ['409', { status: 409, body: '' }, 'MODEL_UNAVAILABLE'],
    ['425', { status: 425, body: '' }, 'MODEL_UNAVAILABLE'],
    ['599', { status: 599, body: '' }, 'MODEL_UNAVAILABLE'],
    ['a reset connection', 'reset', 'MODEL_UNREACHABLE'],
    ['a connection broken in the middle', 'cut', 'MODEL_UNREACHABLE'],
  ];
  for (const [name, answer, code] of failures) {
    test(`${name} is attempted three times at most`, async (t) => {
      const { client, server, outcomes } = await startScene(t, [answer, answer, chat(FLAT)]);
      assert.equal((await ask(client)).usage.calls, 3);
      server.play(answer);
      assert.equal((await failsWith(ask(client), code)).retryable, true);
      assert.deepEqual(outcomes(), [code, code, 'ok', code, code, code]);
    });
  }

  test('A closed port is MODEL_UNREACHABLE and names the reason', async (t) => {
    const { client, events } = await startScene(t, [], { baseUrl: 'http://127.0.0.1:1/v1' });
    const error = await failsWith(ask(client), 'MODEL_UNREACHABLE');
    assert.match(error.message, /ECONNREFUSED.*MODEL_BASE_URL/);
    assert.equal(events.length, 3);
  });
});

suite('final failures', () => {
  const failures: [name: string, answer: ScriptedResponse, status: number, said: RegExp][] = [
    ['a missing model', failure.missingModel, 404, /try pulling it first\. Check/],
    ['a wrong parameter', { status: 400, body: { error: 'no such key' } }, 400, /no such key/],
    ['a wrong key', { status: 401, body: { error: 'nope' } }, 401, /nope\. Check MODEL_API_KEY/],
    ['a redirect', { status: 307, headers: { location: '/x' }, body: '' }, 307, /MODEL_BASE_URL/],
  ];
  for (const [name, answer, status, said] of failures) {
    test(`${name} is attempted once`, async (t) => {
      const { client, server, events } = await startScene(t, [answer]);
      const error = await failsWith(ask(client), 'MODEL_REJECTED');
      assert.deepEqual([error.status, error.retryable], [status, false]);
      assert.match(error.message, said);
      assert.deepEqual([server.requests.length, events.length], [1, 1]);
    });
  }

  test('A key that the server repeats is not in the message', async (t) => {
    const body = { error: { message: `Incorrect API key provided: ${API_KEY}.` } };
    const { client } = await startScene(t, [{ status: 401, body }]);
    const error = await failsWith(ask(client), 'MODEL_REJECTED');
    assert.match(error.message, /Incorrect API key provided: \[key\]\./);
    assert.equal(error.cause, undefined);
  });
});

suite('waits', () => {
  test('Waits double with each attempt up to the bound, with half jitter', async (t) => {
    const random = t.mock.method(Math, 'random', () => 0);
    const retry = createRetry({
      timeoutMs: 60_000,
      attempts: 4,
      initialDelayMs: 40,
      maxDelayMs: 100,
    });
    const attempts: number[] = [];
    const outcome = retry(undefined, async () => {
      attempts.push(performance.now());
      throw new ModelError('MODEL_UNAVAILABLE', 'down');
    });
    await failsWith(outcome, 'MODEL_UNAVAILABLE');
    const waits = attempts.slice(1).map((at, index) => at - (attempts[index] ?? 0));
    // A timer may be a millisecond early.
    for (const [index, minMs] of [20, 40, 50].entries()) {
      assert.ok((waits[index] ?? 0) >= minMs - 1, waits.join(', '));
    }
    assert.equal(random.mock.callCount(), 3);
  });

  test('A Retry-After within the deadline is followed', async (t) => {
    const { client, outcomes } = await startScene(t, [
      failure.tooMany({ 'retry-after-ms': '30', 'retry-after': '600' }),
      chat(FLAT),
    ]);
    const startedAt = performance.now();
    await ask(client);
    // Far longer than the backoff of at most 4 ms.
    assert.ok(performance.now() - startedAt >= 29);
    assert.deepEqual(outcomes(), ['MODEL_RATE_LIMITED', 'ok']);
  });

  for (const value of ['600', 'Fri, 31 Dec 2100 23:59:59 GMT']) {
    test(`A wait beyond the deadline fails the call at once: ${value}`, async (t) => {
      const { client, server } = await startScene(t, [failure.tooMany({ 'retry-after': value })]);
      const error = await failsWith(ask(client), 'MODEL_RATE_LIMITED');
      assert.ok((error.retryAfterMs ?? 0) >= 600_000);
      assert.equal(server.requests.length, 1);
    });
  }

  test('Waits are read from the headers of servers', () => {
    const now = Date.parse('2026-03-01T12:00:00Z');
    const cases: [headers: Record<string, string | string[]>, waitMs: number | undefined][] = [
      [{}, undefined],
      [{ 'retry-after': '5' }, 5_000],
      [{ 'retry-after': ' 0 ' }, 0],
      [{ 'retry-after': '1.5' }, 1_500],
      [{ 'retry-after': 'Sun, 01 Mar 2026 12:00:20 GMT' }, 20_000],
      [{ 'retry-after': 'Sun, 01 Mar 2026 11:00:00 GMT' }, 0],
      [{ 'retry-after': ['7', '9'] }, 7_000],
      [{ 'retry-after': '5', 'retry-after-ms': '120' }, 120],
      [{ 'retry-after': '5', 'retry-after-ms': 'soon' }, 5_000],
      [{ 'retry-after': '-5' }, undefined],
      [{ 'retry-after': 'later' }, undefined],
      [{ 'retry-after': '' }, undefined],
    ];
    for (const [headers, waitMs] of cases) {
      assert.equal(retryAfterMs(headers, now), waitMs, JSON.stringify(headers));
    }
  });
});

suite('the deadline', () => {
  test('The deadline ends a request without an answer', async (t) => {
    const { client, outcomes } = await startScene(t, ['silence'], { timeoutMs: 500 });
    const error = await failsWith(ask(client), 'MODEL_TIMEOUT');
    assert.match(error.message, /within 500 ms.*MODEL_TIMEOUT_MS/);
    assert.deepEqual(outcomes(), ['MODEL_TIMEOUT']);
  });

  test('One deadline covers all attempts and the repair', async (t) => {
    const script: ScriptedResponse[] = [failure.crash, chat('nonsense'), 'silence'];
    const { client, server } = await startScene(t, script, { timeoutMs: 1_500 });
    await failsWith(ask(client), 'MODEL_TIMEOUT');
    assert.equal(server.requests.length, 3);
  });
});

suite('an open breaker after a failure of the call', () => {
  const failAfter = (first: ModelErrorCode) => {
    const codes: ModelErrorCode[] = [first, 'MODEL_BREAKER_OPEN'];
    const retry = createRetry({ timeoutMs: 1000, attempts: 3, initialDelayMs: 1, maxDelayMs: 1 });
    return retry(undefined, async () => {
      throw new ModelError(codes.shift() ?? 'MODEL_CLOSED', 'x');
    });
  };

  test('A call throws its infrastructure failure instead of the rejection', async () => {
    await failsWith(failAfter('MODEL_UNAVAILABLE'), 'MODEL_UNAVAILABLE');
  });

  test('A full context does not hide the rejection', async () => {
    await failsWith(failAfter('MODEL_CONTEXT_FULL'), 'MODEL_BREAKER_OPEN');
  });
});

suite('abort', () => {
  test('An abort ends the request without a retry and without a failure for the breaker', async (t) => {
    const { client, server, outcomes } = await startScene(t, ['silence'], {
      breaker: { failures: 1 },
    });
    const controller = new AbortController();
    const call = ask(client, controller.signal);
    await t.waitFor(() => assert.equal(server.requests.length, 1));
    const reason = new Error('stopping');
    controller.abort(reason);
    assert.equal((await failsWith(call, 'MODEL_ABORTED')).cause, reason);
    assert.equal(client.breaker.state, 'closed');
    assert.deepEqual(outcomes(), ['MODEL_ABORTED']);
    await failsWith(ask(client, AbortSignal.abort()), 'MODEL_ABORTED');
    assert.equal(server.requests.length, 1);
  });

  test('An abort between attempts ends the wait', async () => {
    const hour = 3_600_000;
    const delays = { initialDelayMs: hour, maxDelayMs: hour };
    const retry = createRetry({ timeoutMs: 2 * hour, attempts: 3, ...delays });
    const controller = new AbortController();
    let attempts = 0;
    const outcome = retry(controller.signal, async () => {
      attempts += 1;
      setImmediate(() => controller.abort());
      throw new ModelError('MODEL_UNAVAILABLE', 'down');
    });
    await failsWith(outcome, 'MODEL_ABORTED');
    assert.equal(attempts, 1);
  });
});
