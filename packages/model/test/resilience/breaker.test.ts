import assert from 'node:assert/strict';
import { suite, test, type TestContext } from 'node:test';
import { type BreakerState, ModelError } from '../../src/index.ts';
import { createBreaker } from '../../src/resilience/breaker.ts';
import type { Answer } from '../scripted-server.ts';
import { embeddings } from '../../src/testing.ts';
import { chat, failure } from '../server-answers.ts';
import { ask, failsWith, FLAT, flatAnswer, startScene } from '../test-client.ts';

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

suite('chat, pictures and embeddings have a breaker each', () => {
  const vector = embeddings([[1, 2, 3]]);

  test('so that answers of one do not hide that the other is gone, at one address too', async (t) => {
    const embedded: Answer[] = [];
    const { client } = await startScene(
      t,
      [({ path }) => (path.endsWith('/embeddings') ? (embedded[0] ?? 'reset') : chat.ollama(FLAT))],
      { retry: { attempts: 1 }, breaker: { halfOpenAfterMs: 30 } },
    );
    const states: BreakerState[] = [];
    client.breaker.onChange((state) => states.push(state));
    for (let call = 0; call < 5; call += 1) {
      assert.equal(client.breaker.state, 'closed');
      await ask(client);
      await failsWith(client.embed(['a']), 'MODEL_UNREACHABLE');
    }
    assert.notEqual(client.breaker.state, 'closed');
    assert.ok(await ask(client), 'chat is not kept back');
    await t.waitFor(() => assert.equal(client.breaker.state, 'half-open'));
    assert.ok(await ask(client));
    assert.equal(client.breaker.state, 'half-open', 'chat is no sign of the embeddings');
    embedded.push(vector);
    await client.embed(['a']);
    assert.equal(client.breaker.state, 'closed');
    assert.deepEqual(states, ['open', 'half-open', 'closed']);
  });

  test('so that a model which only reads does not hide that the one which sees is gone', async (t) => {
    let sees = false;
    const { client } = await startScene(
      t,
      [
        ({ body }) =>
          sees || !JSON.stringify(body).includes('image_url') ? chat.ollama(FLAT) : 'reset',
      ],
      { retry: { attempts: 1 }, breaker: { halfOpenAfterMs: 30 } },
    );
    const look = () =>
      client.generateObject({
        operation: 'describe',
        ...flatAnswer,
        system: 'Look.',
        data: null,
        image: { bytes: Uint8Array.of(0xff, 0xd8, 0xff), mediaType: 'image/jpeg' },
      });
    for (let call = 0; call < 5; call += 1) {
      assert.equal(client.breaker.state, 'closed');
      await ask(client);
      await failsWith(look(), 'MODEL_UNREACHABLE');
    }
    assert.notEqual(client.breaker.state, 'closed');
    assert.ok(await ask(client), 'what is read is not kept back');
    sees = true;
    await t.waitFor(() => assert.equal(client.breaker.state, 'half-open'));
    await look();
    assert.equal(client.breaker.state, 'closed');
  });
});

suite('a server that asks to be left alone for longer than a call can wait', () => {
  test('is left alone for so long, by all calls, from its first such answer on', async (t) => {
    const { client, server } = await startScene(
      t,
      [failure.tooMany({ 'retry-after-ms': '300' }), chat.ollama(FLAT)],
      { timeoutMs: 250, breaker: { halfOpenAfterMs: 1 } },
    );
    const askedAt = performance.now();
    const error = await failsWith(ask(client), 'MODEL_RATE_LIMITED');
    assert.equal(error.retryAfterMs, 300);
    assert.equal(client.breaker.state, 'open');
    await failsWith(ask(client), 'MODEL_BREAKER_OPEN');
    await t.waitFor(() => assert.equal(client.breaker.state, 'half-open'));
    assert.ok(performance.now() - askedAt >= 299, 'timers count whole milliseconds');
    await ask(client);
    assert.equal(client.breaker.state, 'closed');
    assert.equal(server.requests.length, 2);
  });

  test('is tried once an hour, whatever it asks', async (t) => {
    t.mock.timers.enable({ apis: ['Date', 'setTimeout'] });
    const breaker = createBreaker({ failures: 5, halfOpenAfterMs: 30_000, patienceMs: 120_000 });
    const retryAfterMs = Date.UTC(2100, 0);
    const call = breaker.run(() =>
      Promise.reject(new ModelError('MODEL_RATE_LIMITED', 'Never.', { retryAfterMs })),
    );
    await failsWith(call, 'MODEL_RATE_LIMITED');
    t.mock.timers.tick(3_599_999);
    assert.equal(breaker.state, 'open');
    t.mock.timers.tick(1);
    assert.equal(breaker.state, 'half-open');
  });
});

suite('failures of one outage', () => {
  test('refer to it, until the server answers again', async (t) => {
    const { client } = await startSingle(t, [
      failure.ollamaCrash,
      failure.vllmBadRequest,
      'reset',
      chat.ollama(FLAT),
      'reset',
    ]);
    const first = await failsWith(ask(client), 'MODEL_UNAVAILABLE');
    assert.ok(first.outage);
    const refused = await failsWith(ask(client), 'MODEL_INPUT_TOO_LARGE');
    assert.equal(refused.outage, undefined);
    assert.equal((await failsWith(ask(client), 'MODEL_UNREACHABLE')).outage, first.outage);
    await ask(client);
    const another = (await failsWith(ask(client), 'MODEL_UNREACHABLE')).outage;
    assert.ok(another);
    assert.notEqual(another, first.outage);
  });

  test('refer to it after it has opened the breaker, probes too', async (t) => {
    const { client, server } = await startHalfOpen(t);
    const first = (await failsWith(ask(client), 'MODEL_UNAVAILABLE')).outage;
    await t.waitFor(() => assert.equal(client.breaker.state, 'half-open'));
    assert.ok(first);
    assert.equal((await failsWith(ask(client), 'MODEL_UNAVAILABLE')).outage, first);
    await t.waitFor(() => assert.equal(client.breaker.state, 'half-open'));
    server.play(chat.ollama(FLAT), 'reset');
    await ask(client);
    assert.notEqual((await failsWith(ask(client), 'MODEL_UNREACHABLE')).outage, first);
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
    assert.equal(client.breaker.isProbing, false, 'it may be tried, and nobody does');

    const calls = Array.from({ length: 50 }, () => ask(client));
    const [probe, ...others] = calls;
    for (const other of others) await failsWith(other, 'MODEL_BREAKER_OPEN');
    assert.deepEqual([client.breaker.state, client.breaker.isProbing], ['half-open', true]);
    answer.resolve(chat.ollama(FLAT));
    assert.ok(await probe);
    assert.equal(client.breaker.isProbing, false);

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
    await failsWith(ask(client), 'MODEL_INPUT_TOO_LARGE');
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
