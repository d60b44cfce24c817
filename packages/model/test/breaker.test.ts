import assert from 'node:assert/strict';
import { suite, test, type TestContext } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { type BreakerState } from '../src/index.ts';
import { type ScriptedResponse, embeddings } from '../src/testing.ts';
import { ask, chat, failsWith, failure, FLAT, look, startScene, type Step } from './support.ts';

/** Starts a client whose calls make one attempt each. */
function startSingle(t: TestContext, script: Step[], halfOpenAfterMs = 3_600_000) {
  return startScene(t, script, { retry: { attempts: 1 }, breaker: { halfOpenAfterMs } });
}

const repeat = (times: number, answer: ScriptedResponse) =>
  Array.from({ length: times }, () => answer);

suite('the closed breaker', () => {
  test('The breaker opens after five failed requests in a row, and then fails calls without a request', async (t) => {
    const { client, server, events } = await startScene(t, [failure.crash]);
    const states: BreakerState[] = [];
    client.breaker.onChange((state) => states.push(state));
    const unsubscribe = client.breaker.onChange(() => assert.fail('it has unsubscribed'));
    unsubscribe();

    await failsWith(ask(client), 'MODEL_UNAVAILABLE');
    assert.deepEqual([client.breaker.state, client.breaker.isOpen], ['closed', false]);
    // The second call fails twice and then finds the breaker open: its error is its own failure.
    await failsWith(ask(client), 'MODEL_UNAVAILABLE');
    assert.deepEqual([client.breaker.state, client.breaker.isOpen], ['open', true]);
    assert.equal((await failsWith(ask(client), 'MODEL_BREAKER_OPEN')).retryable, true);
    assert.deepEqual([server.requests.length, events.length], [5, 5]);
    assert.deepEqual(states, ['open']);
  });

  test('The breaker opens for each class of infrastructure failure', async (t) => {
    const conflict = { status: 409, body: '' };
    const script = [failure.crash, 'reset', failure.tooMany({}), 'cut', conflict] as const;
    const { client } = await startSingle(t, [...script]);
    for (const _ of script) {
      assert.equal(client.breaker.state, 'closed');
      await ask(client).catch(() => undefined);
    }
    assert.equal(client.breaker.state, 'open');
  });

  test('The breaker opens for timeouts', async (t) => {
    const { client } = await startScene(t, ['silence'], {
      timeoutMs: 40,
      breaker: { failures: 2 },
    });
    for (const _ of [1, 2]) await failsWith(ask(client), 'MODEL_TIMEOUT');
    assert.equal(client.breaker.state, 'open');
  });

  test('The breaker stays closed if a success lies between failures', async (t) => {
    const four = repeat(4, failure.crash);
    const { client } = await startSingle(t, [...four, chat(FLAT), ...four]);
    for (let call = 0; call < 9; call += 1) await ask(client).catch(() => undefined);
    assert.equal(client.breaker.state, 'closed');
  });

  test('Rejected requests and invalid or truncated answers neither open nor reset the breaker', async (t) => {
    const nonsense = chat('nonsense');
    const others = [
      failure.tooLong,
      failure.missingModel,
      nonsense,
      nonsense,
      chat(FLAT, 'length'),
    ];
    const { client } = await startSingle(t, [
      ...others,
      ...repeat(4, failure.crash),
      ...others,
      'reset',
    ]);
    // Two of the requests in `others` belong to one call: the answer and its repair.
    for (let call = 0; call < 4 + 4 + 4; call += 1) await ask(client).catch(() => undefined);
    assert.equal(client.breaker.state, 'closed');
    await failsWith(ask(client), 'MODEL_UNREACHABLE');
    assert.equal(client.breaker.state, 'open');
  });

  test('The breaker opens for a Retry-After that exceeds the deadline of a call', async (t) => {
    const script = [failure.tooMany({ 'retry-after-ms': '300' }), chat(FLAT)];
    const { client, server } = await startScene(t, script, {
      timeoutMs: 250,
      breaker: { halfOpenAfterMs: 1 },
    });
    const startedAt = performance.now();
    await failsWith(ask(client), 'MODEL_RATE_LIMITED');
    await failsWith(ask(client), 'MODEL_BREAKER_OPEN');
    await t.waitFor(() => assert.equal(client.breaker.state, 'half-open'));
    assert.ok(performance.now() - startedAt >= 299, 'timers count whole milliseconds');
    await ask(client);
    assert.equal(client.breaker.state, 'closed');
    assert.equal(server.requests.length, 2);
  });
});

suite('breakers of chat, vision and embeddings', () => {
  type Client = Awaited<ReturnType<typeof startScene>>['client'];
  const uses: [name: string, call: (client: Client) => Promise<unknown>, mark: string][] = [
    ['embeddings', (client) => client.embed(['a']), '"input"'],
    ['vision', look, 'image_url'],
  ];
  for (const [name, call, mark] of uses) {
    test(`Chat does not hide an outage of ${name} at the same address`, async (t) => {
      let isAway = true;
      const script: Step = ({ body }) => {
        if (!JSON.stringify(body).includes(mark)) return chat(FLAT);
        if (isAway) return 'reset';
        return name === 'vision' ? chat(FLAT) : embeddings([[1, 2, 3]]);
      };
      const { client } = await startSingle(t, [script], 30);
      const states: BreakerState[] = [];
      client.breaker.onChange((state) => states.push(state));
      for (let nth = 0; nth < 5; nth += 1) {
        assert.equal(client.breaker.state, 'closed');
        await ask(client);
        await failsWith(call(client), 'MODEL_UNREACHABLE');
      }
      assert.notEqual(client.breaker.state, 'closed');
      assert.ok(await ask(client), 'chat continues');
      await t.waitFor(() => assert.equal(client.breaker.state, 'half-open'));
      await ask(client);
      assert.equal(client.breaker.state, 'half-open', 'chat is no probe');
      isAway = false;
      await call(client);
      assert.deepEqual(states, ['open', 'half-open', 'closed']);
    });
  }
});

/** Opens the breaker of a client, and waits until a probe is due. */
async function startHalfOpen(t: TestContext) {
  const scene = await startSingle(t, [failure.crash], 30);
  const { breaker } = scene.client;
  const states: BreakerState[] = [];
  breaker.onChange((state) => states.push(state));
  const isHalfOpen = () => t.waitFor(() => assert.equal(breaker.state, 'half-open'));
  for (let call = 0; call < 5; call += 1) await failsWith(ask(scene.client), 'MODEL_UNAVAILABLE');
  await isHalfOpen();
  return { ...scene, states, isHalfOpen };
}

suite('the half-open breaker', () => {
  test('A half-open breaker permits one of fifty callers', async (t) => {
    const { client, server, states } = await startHalfOpen(t);
    const answer = Promise.withResolvers<ScriptedResponse>();
    server.play(() => answer.promise);
    const before = server.requests.length;
    assert.equal(client.breaker.isOpen, false, 'a probe is due and not in progress');
    const [probe, ...others] = Array.from({ length: 50 }, () => ask(client));
    for (const other of others) await failsWith(other, 'MODEL_BREAKER_OPEN');
    assert.deepEqual([client.breaker.state, client.breaker.isOpen], ['half-open', true]);
    answer.resolve(chat(FLAT));
    assert.ok(await probe);
    assert.deepEqual([client.breaker.state, client.breaker.isOpen], ['closed', false]);
    assert.equal(server.requests.length - before, 1);
    assert.deepEqual(states, ['open', 'half-open', 'closed']);
  });

  test('A half-open breaker opens again when the probe fails, as the same outage', async (t) => {
    const { client, server, isHalfOpen } = await startHalfOpen(t);
    const before = server.requests.length;
    const { outage } = await failsWith(ask(client), 'MODEL_UNAVAILABLE');
    assert.ok(outage);
    assert.equal(server.requests.length - before, 1);
    await isHalfOpen();
    assert.equal((await failsWith(ask(client), 'MODEL_UNAVAILABLE')).outage, outage);
    await isHalfOpen();
    server.play(chat(FLAT), 'reset');
    await ask(client);
    assert.notEqual((await failsWith(ask(client), 'MODEL_UNREACHABLE')).outage, outage);
  });

  test('A half-open breaker closes when the server rejects the probe', async (t) => {
    const { client, server } = await startHalfOpen(t);
    server.play(failure.tooLong);
    assert.equal((await failsWith(ask(client), 'MODEL_INPUT_TOO_LARGE')).outage, undefined);
    assert.equal(client.breaker.state, 'closed');
  });
});

suite('context too small for concurrent requests', () => {
  test('A server with a small context gets fewer requests at once, and answers all', async (t) => {
    const room = 2;
    let inProgress = 0;
    let most = 0;
    const script: Step = async () => {
      inProgress += 1;
      most = Math.max(most, inProgress);
      const isFull = inProgress > room;
      await sleep(20);
      inProgress -= 1;
      return isFull ? failure.contextFull : chat(FLAT);
    };
    const { client, outcomes } = await startScene(t, [script], { breaker: { failures: 2 } });
    await Promise.all(Array.from({ length: 4 }, () => ask(client)));
    assert.equal(most, 4, 'the limit begins after the first error');
    assert.equal(client.breaker.state, 'closed');
    most = 0;
    const before = outcomes().length;
    await Promise.all(Array.from({ length: 12 }, () => ask(client)));
    assert.ok(most <= room, `${most} at once`);
    assert.deepEqual(new Set(outcomes().slice(before)), new Set(['ok']));
  });

  test('A request beyond the context fails its call and no others', async (t) => {
    const { client, server } = await startScene(t, [failure.contextFull]);
    const first = await failsWith(ask(client), 'MODEL_CONTEXT_FULL');
    const second = await failsWith(ask(client), 'MODEL_CONTEXT_FULL');
    assert.ok(first.outage && second.outage && first.outage !== second.outage);
    assert.equal(server.requests.length, 6);
    assert.equal(client.breaker.state, 'closed');
  });
});
