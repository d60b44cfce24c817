import assert from 'node:assert/strict';
import { once } from 'node:events';
import type { ServerResponse } from 'node:http';
import { suite, test, type TestContext } from 'node:test';
import { readFile } from 'node:fs/promises';
import {
  createModelClient,
  createUsage,
  MODEL_ERRORS,
  type ModelCallEvent,
  type ModelClientOptions,
  type ModelErrorCode,
} from '../src/index.ts';
import {
  type ScriptedResponse,
  createEmbeddings,
  type ReceivedRequest,
  createStreamedResponse,
} from '../src/testing.ts';
import { createTransport } from '../src/transport.ts';
import {
  API_KEY,
  ask,
  createChat,
  expectFailure,
  failure,
  FLAT_JSON,
  flatCompletion,
  look,
  startScene,
  startScriptedServer,
} from './support.ts';

suite('health', () => {
  test('Health is ok when the server lists its models', async (t) => {
    const { client, server, events } = await startScene(t, [
      { body: { object: 'list', data: [] } },
    ]);
    assert.deepEqual(await client.health(), { status: 'ok', mode: 'openai' });
    assert.equal(server.requests[0]?.method, 'GET');
    assert.equal(server.requests[0]?.path, '/v1/models');
    assert.equal(server.requests[0]?.headers.authorization, `Bearer ${API_KEY}`);
    assert.equal(events.length, 0);
  });

  const unhealthyResponses: [name: string, answer: ScriptedResponse, detail: RegExp][] = [
    ['loads its model', failure.loading, /503 .*Loading model/],
    [
      'rejects the key',
      { status: 401, body: { error: `Bad ${API_KEY}` } },
      /Bad \[key\].*MODEL_API_KEY/,
    ],
    ['resets the connection', 'reset', /cannot be reached/],
    ['times out', 'silence', /^The model server did not respond\.$/],
  ];
  for (const [name, answer, detail] of unhealthyResponses) {
    test(`Health is down while the server ${name}, and the breaker does not change`, async (t) => {
      const options = { timeoutMs: 500, breaker: { failures: 1 } };
      const { client, server } = await startScene(t, [answer], options);
      const health = await client.health();
      assert.equal(health.status, 'down');
      assert.match(health.detail ?? '', detail);
      assert.deepEqual([client.breaker.state, server.requests.length], ['closed', 1]);
    });
  }

  test('Health is failing after a failed request, with a reason without secrets', async (t) => {
    const models = { body: { data: [] } };
    const { client, server } = await startScene(t, [
      { status: 500, body: { error: `no backend at http://u:p@gpu/ for ${API_KEY}` } },
    ]);
    await expectFailure(client.embed(['two rooms in Lviv']), 'MODEL_UNAVAILABLE');
    server.play(createChat(FLAT_JSON));
    await ask(client);
    server.play(models);
    assert.deepEqual(await client.health(), {
      status: 'failing',
      detail:
        'The last embedding request failed: The model server responded with status 500 to POST /v1/embeddings: no backend at http://[credentials]@gpu/ for [key].',
      mode: 'openai',
    });
    server.play(createEmbeddings([[1, 2, 3]]));
    await client.embed(['two rooms in Lviv']);
    server.play(models);
    assert.deepEqual(await client.health(), { status: 'ok', mode: 'openai' });
  });

  test('Health ignores inputs that are too large and aborted calls', async (t) => {
    const { client, server } = await startScene(t, [failure.tooLong]);
    await expectFailure(ask(client), 'MODEL_INPUT_TOO_LARGE');
    await expectFailure(ask(client, AbortSignal.abort()), 'MODEL_ABORTED');
    server.play({ body: { data: [] } });
    assert.equal((await client.health()).status, 'ok');
  });

  test('Health is failing after five consecutive input failures of one use', async (t) => {
    const { client, server } = await startScene(t, []);
    const readHealth = async () => {
      server.play({ body: { data: [] } });
      return (await client.health()).status;
    };
    const failInputs = async () => {
      for (const [response, code] of [
        [failure.tooLong, 'MODEL_INPUT_TOO_LARGE'],
        [createChat('', 'content_filter'), 'MODEL_REFUSED'],
        [createChat('{"city":"Л', 'length'), 'MODEL_TRUNCATED'],
        [failure.tooLong, 'MODEL_INPUT_TOO_LARGE'],
      ] as const) {
        server.play(response);
        await expectFailure(ask(client), code);
      }
    };
    await failInputs();
    server.play(createChat(FLAT_JSON));
    await ask(client);
    await failInputs();
    server.play(failure.tooLong);
    await expectFailure(look(client), 'MODEL_INPUT_TOO_LARGE');
    assert.equal(await readHealth(), 'ok');
    server.play(failure.tooLong);
    await expectFailure(ask(client), 'MODEL_INPUT_TOO_LARGE');
    assert.equal(await readHealth(), 'failing');
    server.play(createChat(FLAT_JSON));
    await ask(client);
    assert.equal(await readHealth(), 'ok');
  });
});

suite('closing', () => {
  test('Closing waits for calls in progress and rejects later ones', async (t) => {
    const answer = Promise.withResolvers<ScriptedResponse>();
    const { client, server } = await startScene(t, [() => answer.promise, createChat(FLAT_JSON)]);
    const call = ask(client);
    await t.waitFor(() => assert.equal(server.requests.length, 1));

    let isClosed = false;
    const closePromise = client.close().finally(() => {
      isClosed = true;
    });
    await expectFailure(ask(client), 'MODEL_CLOSED');
    await expectFailure(client.embed(['a']), 'MODEL_CLOSED');
    assert.equal((await client.health()).status, 'down');
    assert.equal(isClosed, false);

    // The call in progress may still be retried.
    answer.resolve(failure.loading);
    assert.equal((await call).usage.calls, 2);
    await closePromise;
    assert.equal(server.requests.length, 2);
    await client.close();
  });
});

/** Sums the usage of events. */
function sumEvents(events: readonly ModelCallEvent[]) {
  const usage = createUsage();
  for (const event of events) usage.add(event);
  return usage.total();
}

suite('the usage of a call', () => {
  test('The usage of a call counts each request, and is reported even if the call fails', async (t) => {
    const { client, server, events } = await startScene(t, [
      failure.crash,
      createChat('nonsense'),
      createChat(FLAT_JSON),
    ]);
    const { usage } = await ask(client);
    assert.deepEqual(usage, { calls: 3, inputTokens: 52, outputTokens: 18 });
    assert.deepEqual(sumEvents(events), usage);

    server.play(createChat('nonsense'));
    const callEvents: ModelCallEvent[] = [];
    const observe = (event: ModelCallEvent) => callEvents.push(event);
    const question = {
      ...flatCompletion,
      system: 'Read.',
      data: null,
      operation: 'extract',
      observe,
    };
    await expectFailure(client.generateObject(question), 'MODEL_INVALID_OUTPUT');
    assert.deepEqual(sumEvents(callEvents), { calls: 2, inputTokens: 52, outputTokens: 18 });
    assert.deepEqual(callEvents, events.slice(3));

    server.play(failure.crash, createEmbeddings([[1, 2, 3]]));
    await client.embed(['a'], { observe });
    const seenOutcomes = callEvents
      .slice(2)
      .map(({ outcome, inputTokens }) => [outcome, inputTokens]);
    assert.deepEqual(seenOutcomes, [
      ['MODEL_UNAVAILABLE', null],
      ['ok', 8],
    ]);
  });
});

test('The README explains every error code and its retries', async () => {
  const readme = await readFile(new URL('../README.md', import.meta.url), 'utf8');
  const rows = readme.matchAll(/^\| `(MODEL_\w+)` +\| (yes|no) +\|/gm);
  const documentedCodes = [...rows].map(([, code, retryable]) => [code, retryable === 'yes']);
  const table = Object.entries(MODEL_ERRORS).map(([code, { retryable }]) => [code, retryable]);
  assert.deepEqual(documentedCodes, table);
});

/** Starts a chat server, an embedding server, and a client for both. */
async function startBoth(t: TestContext, options: Partial<ModelClientOptions> = {}) {
  const embedding = await startScriptedServer(t, createEmbeddings([[1, 2, 3]]));
  const scene = await startScene(t, [createChat(FLAT_JSON)], {
    embeddingBaseUrl: embedding.baseUrl,
    ...options,
  });
  return { ...scene, embedding };
}

const getPathAndKey = ({ path, headers }: ReceivedRequest) => [path, headers.authorization];

suite('separate servers', () => {
  const embeddingKeys: [
    name: string,
    embeddingApiKey: string | undefined,
    expectedHeader: string,
  ][] = [
    ['one key', undefined, API_KEY],
    ['a key each', 'sk-embed', 'sk-embed'],
  ];
  for (const [name, embeddingApiKey, expectedHeader] of embeddingKeys) {
    test(`Servers are called at their own addresses, with ${name}`, async (t) => {
      const { client, server, embedding } = await startBoth(t, { embeddingApiKey });
      await ask(client);
      await client.embed(['two rooms']);
      assert.deepEqual(server.requests.map(getPathAndKey), [
        ['/v1/chat/completions', `Bearer ${API_KEY}`],
      ]);
      assert.deepEqual(embedding.requests.map(getPathAndKey), [
        ['/v1/embeddings', `Bearer ${expectedHeader}`],
      ]);
    });
  }

  test('The health of both servers is checked', async (t) => {
    const { client, server, embedding } = await startBoth(t);
    server.play({ body: { data: [] } });
    embedding.play({ body: { data: [] } });
    assert.equal((await client.health()).status, 'ok');
    embedding.play(failure.loading);
    assert.match((await client.health()).detail ?? '', /Loading model/);
  });

  test('One server for images and embeddings is opened once', async (t) => {
    const { baseUrl, requests } = await startScriptedServer(t, { body: { data: [] } });
    const options = { visionBaseUrl: baseUrl, embeddingBaseUrl: `${baseUrl}/` };
    const { client } = await startScene(t, [{ body: { data: [] } }], options);
    assert.equal((await client.health()).status, 'ok');
    assert.equal(requests.length, 1);
  });

  const failures: [
    name: string,
    answer: ScriptedResponse,
    code: ModelErrorCode,
    pattern: RegExp,
  ][] = [
    ['is gone', 'reset', 'MODEL_UNREACHABLE', /Check that it runs at (\w+)\.$/],
    ['is not found', { status: 404, body: '' }, 'MODEL_REJECTED', /Check (\w+), which ends in/],
    [
      'redirects',
      { status: 307, headers: { location: '/x' }, body: '' },
      'MODEL_REJECTED',
      /Set (\w+) to/,
    ],
    ['sends pages', { body: '<html>' }, 'MODEL_INVALID_OUTPUT', /not JSON. Check (\w+), which/],
    ['rejects the key', { status: 401, body: '' }, 'MODEL_REJECTED', /Check (\w+)\.$/],
  ];
  for (const [name, answer, code, pattern] of failures) {
    test(`A failing server is identified by its settings when it ${name}`, async (t) => {
      const { client, server, embedding } = await startBoth(t, { embeddingApiKey: 'sk-embed' });
      const names: (string | undefined)[] = [];
      embedding.play(answer);
      names.push(pattern.exec((await expectFailure(client.embed(['x']), code)).message)?.[1]);
      server.play(answer);
      names.push(pattern.exec((await expectFailure(ask(client), code)).message)?.[1]);
      assert.deepEqual(
        names,
        name === 'rejects the key'
          ? ['MODEL_EMBEDDING_API_KEY', 'MODEL_API_KEY']
          : ['MODEL_EMBEDDING_BASE_URL', 'MODEL_BASE_URL'],
      );
    });
  }
});

const SERVER: ModelClientOptions = {
  mode: 'openai',
  timeoutMs: 1_000,
  embeddingDimensions: 8,
  baseUrl: 'http://models.example/v1',
  chat: 'qwen3',
  embedding: 'embeddinggemma',
};

suite('settings of servers', () => {
  test('A server needs no key', async () => {
    for (const apiKey of [undefined, '', 'sk-test']) {
      await createModelClient({ ...SERVER, apiKey }).close();
    }
  });

  const invalidValues = {
    baseUrl: [
      '',
      'models.example/v1',
      'ftp://models.example/v1',
      'http://',
      'http://user:hidden@models.example/v1',
      'http://models.example/v1?key=hidden',
      'http://models.example/v1#hidden',
    ],
    apiKey: ['hidden\n', 'hid den', 'hidden\u2026'],
  };
  const optionNames = { baseUrl: 'embeddingBaseUrl', apiKey: 'embeddingApiKey' } as const;
  const suffixes = { baseUrl: 'BASE_URL', apiKey: 'API_KEY' };
  for (const name of ['baseUrl', 'apiKey'] as const) {
    for (const value of invalidValues[name]) {
      test(`The ${name} ${JSON.stringify(value)} is rejected and not repeated`, () => {
        const assertRejected = (options: Partial<ModelClientOptions>, variable: string) =>
          assert.throws(() => createModelClient({ ...SERVER, ...options }), {
            code: 'MODEL_MISCONFIGURED',
            message: new RegExp(`^${variable} must (?!.*hid)`),
          });
        assertRejected({ [name]: value }, `MODEL_${suffixes[name]}`);
        if (value !== '')
          assertRejected({ [optionNames[name]]: value }, `MODEL_EMBEDDING_${suffixes[name]}`);
      });
    }
  }
});

suite('the transport', () => {
  const MEBIBYTE = 1024 * 1024;
  const variables = { baseUrl: 'MODEL_BASE_URL', apiKey: 'MODEL_API_KEY' };

  async function startTransport(t: TestContext, answer: ScriptedResponse) {
    const server = await startScriptedServer(t, answer);
    const transport = createTransport({ apiKey: API_KEY, variables });
    t.after(transport.close);
    const get = (init?: RequestInit) => transport.fetch(server.baseUrl, init);
    return { server, get };
  }

  test('An answer of 16 MiB is read and a larger one rejected, streamed or not', async (t) => {
    const { get } = await startTransport(t, { body: 'x'.repeat(16 * MEBIBYTE) });
    assert.equal((await (await get()).text()).length, 16 * MEBIBYTE);
    const block = Buffer.alloc(MEBIBYTE);
    const streamed = createStreamedResponse(
      Array.from({ length: 17 }, () => async (response: ServerResponse) => {
        if (!response.write(block)) await once(response, 'drain').catch(() => {});
      }),
    );
    for (const answer of [{ body: 'x'.repeat(17 * MEBIBYTE) }, streamed]) {
      const largeTransport = await startTransport(t, answer);
      const { body } = await largeTransport.get();
      let size = 0;
      const reading = (async () => {
        for await (const part of body ?? []) size += part.length;
      })();
      const error = await expectFailure(reading, 'MODEL_INVALID_OUTPUT');
      assert.match(error.message, /larger than 16 MiB/);
      assert.ok(size > 0 && size <= 16 * MEBIBYTE, `${size}`);
    }
  });

  test('A huge error is reported by its status', async (t) => {
    const hugeTransport = await startTransport(t, {
      status: 500,
      body: `<p>${'x'.repeat(17 * MEBIBYTE)}`,
    });
    const error = await expectFailure(hugeTransport.get(), 'MODEL_UNAVAILABLE');
    assert.ok(error.message.length < 400);
  });
});
