import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { embeddings } from '../src/testing.ts';
import type { Answer } from './scripted-server.ts';
import { chat, failure } from './server-answers.ts';
import { API_KEY, ask, failsWith, FLAT, startScene } from './test-client.ts';

suite('health', () => {
  test('is ok when the server lists its models', async (t) => {
    const { client, server, events } = await startScene(t, [
      { body: { object: 'list', data: [] } },
    ]);
    assert.deepEqual(await client.health(), { status: 'ok', mode: 'openai' });
    assert.equal(server.requests[0]?.method, 'GET');
    assert.equal(server.requests[0]?.path, '/v1/models');
    assert.equal(server.requests[0]?.headers.authorization, `Bearer ${API_KEY}`);
    assert.equal(events.length, 0);
  });

  const down: [name: string, answer: Answer, detail: RegExp][] = [
    ['loads its model', failure.llamaCppLoading, /503 .*Loading model/],
    [
      'refuses the key',
      { status: 401, body: { error: `Bad ${API_KEY}` } },
      /Bad \[key\].*MODEL_API_KEY/,
    ],
    ['resets the connection', 'reset', /cannot be reached/],
  ];
  for (const [name, answer, detail] of down) {
    test(`is down while the server ${name}, and moves no breaker`, async (t) => {
      const { client, server } = await startScene(t, [answer], { breaker: { failures: 1 } });
      const health = await client.health();
      assert.equal(health.status, 'down');
      assert.match(health.detail ?? '', detail);
      assert.equal(client.breaker.state, 'closed');
      assert.equal(server.requests.length, 1);
    });
  }

  test('is down when the server does not answer in time', async (t) => {
    const { client } = await startScene(t, ['silence'], { timeoutMs: 40 });
    assert.deepEqual(await client.health(), {
      status: 'down',
      detail: 'The model server did not answer.',
      mode: 'openai',
    });
  });

  test('is down when the caller does not wait', async (t) => {
    const { client } = await startScene(t, ['silence']);
    assert.equal((await client.health({ signal: AbortSignal.abort() })).status, 'down');
  });

  test('is asked for even while the breaker is open', async (t) => {
    const { client, server } = await startScene(t, [failure.ollamaCrash], {
      breaker: { failures: 1 },
    });
    await ask(client).catch(() => undefined);
    assert.equal(client.breaker.state, 'open');
    server.play({ body: { data: [] } });
    const { status, detail } = await client.health();
    assert.equal(status, 'failing', 'it lists its models');
    assert.match(
      detail ?? '',
      /^The last chat request failed: .*llama runner process has terminated/,
    );
    assert.equal(client.breaker.state, 'open');
  });

  test('is failing while the last request of a kind failed, and says why, without secrets', async (t) => {
    const models = { body: { data: [] } };
    const { client, server } = await startScene(t, [
      { status: 500, body: { error: `no backend at http://u:p@gpu/ for ${API_KEY}` } },
    ]);
    await failsWith(client.embed(['two rooms in Lviv']), 'MODEL_UNAVAILABLE');
    server.play(chat.ollama(FLAT));
    await ask(client);
    server.play(models);
    assert.deepEqual(await client.health(), {
      status: 'failing',
      detail:
        'The last embedding request failed: The model server answered 500 to POST /v1/embeddings: no backend at http://[credentials]@gpu/ for [key].',
      mode: 'openai',
    });
    server.play(embeddings([[1, 2, 3]]));
    await client.embed(['two rooms in Lviv']);
    server.play(models);
    assert.deepEqual(await client.health(), { status: 'ok', mode: 'openai' });
  });

  test('is no worse for an input that is too large, or a call that was given up', async (t) => {
    const { client, server } = await startScene(t, [failure.vllmBadRequest]);
    await failsWith(ask(client), 'MODEL_INPUT_TOO_LARGE');
    await failsWith(ask(client, AbortSignal.abort()), 'MODEL_ABORTED');
    server.play({ body: { data: [] } });
    assert.equal((await client.health()).status, 'ok');
  });

  test('is failing once five inputs in a row are too large', async (t) => {
    const { client, server } = await startScene(t, [failure.vllmBadRequest]);
    const health = () => {
      server.play({ body: { data: [] } });
      return client.health();
    };
    const fail = async () => {
      server.play(failure.vllmBadRequest);
      await failsWith(ask(client), 'MODEL_INPUT_TOO_LARGE');
    };
    for (let nth = 0; nth < 4; nth += 1) await fail();
    assert.equal((await health()).status, 'ok');
    await fail();
    const { status, detail } = await health();
    assert.equal(status, 'failing');
    assert.match(detail ?? '', /^The last chat request failed: .*longer than the maximum/);
    server.play(chat.ollama(FLAT));
    await ask(client);
    await fail();
    assert.equal((await health()).status, 'ok');
  });
});

suite('closing', () => {
  test('lets what is in progress end, and refuses what comes after', async (t) => {
    const answer = Promise.withResolvers<Answer>();
    const { client, server } = await startScene(t, [() => answer.promise, chat.ollama(FLAT)]);
    const call = ask(client);
    await t.waitFor(() => assert.equal(server.requests.length, 1));

    let closed = false;
    const closing = client.close().finally(() => {
      closed = true;
    });
    await failsWith(ask(client), 'MODEL_CLOSED');
    await failsWith(client.embed(['a']), 'MODEL_CLOSED');
    assert.equal((await client.health()).status, 'down');
    assert.equal(closed, false);

    // The call in progress may even need further requests.
    answer.resolve(failure.llamaCppLoading);
    assert.equal((await call).usage.calls, 2);
    await closing;
    assert.equal(server.requests.length, 2);
    await client.close();
  });
});

suite('the breaker that nobody has set', () => {
  test('opens after five failures in a row, and lets one call through after 30 s', async (t) => {
    // The clock alone: requests need the timers.
    t.mock.timers.enable({ apis: ['Date'] });
    const { client, server } = await startScene(t, [failure.ollamaCrash], {
      retry: { attempts: 1 },
    });
    for (let call = 1; call <= 5; call += 1) {
      assert.equal(client.breaker.state, 'closed', `before call ${call}`);
      await failsWith(ask(client), 'MODEL_UNAVAILABLE');
    }
    server.play(chat.ollama(FLAT));
    t.mock.timers.tick(29_999);
    await failsWith(ask(client), 'MODEL_BREAKER_OPEN');
    assert.equal(server.requests.length, 5);

    t.mock.timers.tick(1);
    assert.equal(client.breaker.state, 'half-open');
    const calls = await Promise.allSettled([ask(client), ask(client)]);
    assert.deepEqual(
      calls.map(({ status }) => status),
      ['fulfilled', 'rejected'],
    );
    assert.equal(server.requests.length, 6);
    assert.equal(client.breaker.state, 'closed');
  });
});
