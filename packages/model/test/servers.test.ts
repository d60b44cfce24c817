import assert from 'node:assert/strict';
import { suite, test, type TestContext } from 'node:test';
import { Type } from 'typebox';
import { Parse } from 'typebox/value';
import type { ModelClientOptions, ModelErrorCode } from '../src/index.ts';
import {
  type Answer,
  type RequestHandler,
  type ReceivedRequest,
  startScriptedServer,
} from './scripted-server.ts';
import { embeddings } from '../src/testing.ts';
import { chat, failure } from './server-answers.ts';
import { API_KEY, ask, chatBody, failsWith, FLAT, startScene } from './test-client.ts';

const VALUE = { city: 'Львів', price: 52_000 };

/** What differs between the servers that docs/models.md names. */
const SERVERS: Record<string, { chat: (content: string) => RequestHandler; tokens: unknown }> = {
  Ollama: { chat: chat.ollama, tokens: { calls: 1, inputTokens: 26, outputTokens: 9 } },
  vLLM: { chat: chat.vllm, tokens: { calls: 1, inputTokens: 26, outputTokens: 9 } },
  'llama.cpp': { chat: chat.llamaCpp, tokens: { calls: 1, inputTokens: 26, outputTokens: 9 } },
  'a server that counts no tokens': {
    chat: chat.bare,
    tokens: { calls: 1, inputTokens: null, outputTokens: null },
  },
};

for (const [name, server] of Object.entries(SERVERS)) {
  test(`${name}: a schema for the answer, and embeddings of the width that the model has`, async (t) => {
    const { client, server: scripted } = await startScene(t, [
      ({ path }) => {
        assert.equal(path, '/v1/chat/completions');
        const play = server.chat(FLAT);
        assert.ok(typeof play !== 'function');
        return play;
      },
      embeddings([[1, 2, 3]]),
    ]);
    const { value, usage } = await ask(client);
    assert.deepEqual(value, VALUE);
    assert.deepEqual(usage, server.tokens);
    const format = Parse(
      Type.Object({ type: Type.String(), json_schema: Type.Object({ strict: Type.Boolean() }) }),
      chatBody(scripted.requests[0]).response_format,
    );
    assert.equal(format.type, 'json_schema');

    await client.embed(['two rooms']);
    // vLLM refuses `dimensions` for models that were not made for it; others would cut vectors by it.
    assert.deepEqual(Object.keys(Object(scripted.requests[1]?.body)).toSorted(), [
      'encoding_format',
      'input',
      'model',
    ]);
  });
}

suite('a server that takes no schema for its answers', () => {
  const refusals: [name: string, body: unknown][] = [
    [
      'knows plain JSON only',
      { error: { message: 'This response_format type is unavailable now', type: 'invalid' } },
    ],
    ['names the type', { object: 'error', message: 'json_schema is not supported', code: 400 }],
  ];
  for (const [name, body] of refusals) {
    test(`and ${name} is asked without it, from then on`, async (t) => {
      const { client, server } = await startScene(t, [{ status: 400, body }, chat.ollama(FLAT)]);
      assert.deepEqual((await ask(client)).value, VALUE);
      assert.deepEqual((await ask(client)).value, VALUE);
      const bodies = server.requests.map(chatBody);
      assert.deepEqual(
        bodies.map((sent) => sent.response_format !== undefined),
        [true, false, false],
      );
      const [system] = bodies[1]?.messages ?? [];
      assert.match(String(system?.content), /JSON Schema/, 'the schema stands in the instructions');
    });
  }

  test('and was asked by several at once is asked without it by each of them', async (t) => {
    const asking = Promise.withResolvers<void>();
    let sent = 0;
    const { client, server } = await startScene(t, [
      async ({ body }) => {
        if (Object(body).response_format === undefined) return chat.ollama(FLAT);
        sent += 1;
        if (sent === 3) asking.resolve();
        await asking.promise;
        return { status: 400, body: refusals[0]?.[1] };
      },
    ]);
    const answers = await Promise.all([ask(client), ask(client), ask(client)]);
    assert.deepEqual(
      answers.map(({ value }) => value),
      [VALUE, VALUE, VALUE],
    );
    assert.equal(server.requests.length, 6);
  });

  test('and refuses for another reason is told as it is', async (t) => {
    const { client, server } = await startScene(t, [failure.vllmBadRequest]);
    const error = await failsWith(ask(client), 'MODEL_INPUT_TOO_LARGE');
    assert.match(error.message, /longer than the maximum model length/);
    assert.equal(server.requests.length, 1);
  });

  test('and refuses without it too is not asked for ever', async (t) => {
    const body = { error: { message: 'response_format is not allowed' } };
    const { client, server } = await startScene(t, [{ status: 400, body }]);
    await failsWith(ask(client), 'MODEL_REJECTED');
    assert.equal(server.requests.length, 2);
  });
});

/** One server that chats, one that embeds, and a client of both. */
async function startBoth(t: TestContext, options: Partial<ModelClientOptions> = {}) {
  const embedding = await startScriptedServer(t, embeddings([[1, 2, 3]]));
  const scene = await startScene(t, [chat.vllm(FLAT)], {
    embeddingBaseUrl: embedding.baseUrl,
    ...options,
  });
  return { ...scene, embedding };
}

const asked = ({ path, headers }: ReceivedRequest) => [path, headers.authorization];

suite('servers that serve one model each', () => {
  const keys: [name: string, embeddingApiKey: string | undefined, sent: string][] = [
    ['one key', undefined, API_KEY],
    ['a key each', 'sk-embed', 'sk-embed'],
  ];
  for (const [name, embeddingApiKey, sent] of keys) {
    test(`are asked at their own addresses, with ${name}`, async (t) => {
      const { client, server, embedding } = await startBoth(t, { embeddingApiKey });
      await ask(client);
      await client.embed(['two rooms']);
      assert.deepEqual(server.requests.map(asked), [['/v1/chat/completions', `Bearer ${API_KEY}`]]);
      assert.deepEqual(embedding.requests.map(asked), [['/v1/embeddings', `Bearer ${sent}`]]);
    });
  }

  test('at one address may need a key each', async (t) => {
    const { client, server } = await startScene(t, [embeddings([[1, 2, 3]])], {
      embeddingApiKey: 'sk-embed',
    });
    await client.embed(['two rooms']);
    assert.equal(server.requests[0]?.headers.authorization, 'Bearer sk-embed');
  });

  test('are both asked how they are', async (t) => {
    const { client, server, embedding } = await startBoth(t);
    server.play({ body: { data: [] } });
    embedding.play({ body: { data: [] } });
    assert.equal((await client.health()).status, 'ok');
    embedding.play(failure.llamaCppLoading);
    assert.match((await client.health()).detail ?? '', /Loading model/);
  });

  const failures: [name: string, answer: Answer, code: ModelErrorCode, said: RegExp][] = [
    ['is gone', 'reset', 'MODEL_UNREACHABLE', /Is it running at (\w+)\?$/],
    ['is not found', { status: 404, body: '' }, 'MODEL_REJECTED', /Check (\w+), which ends in/],
    [
      'redirects',
      { status: 307, headers: { location: '/x' }, body: '' },
      'MODEL_REJECTED',
      /Set (\w+) to/,
    ],
    ['sends pages', { body: '<html>' }, 'MODEL_INVALID_OUTPUT', /not JSON. Check (\w+), which/],
    ['refuses the key', { status: 401, body: '' }, 'MODEL_REJECTED', /Check (\w+)\.$/],
  ];
  for (const [name, answer, code, said] of failures) {
    test(`are told apart by their settings when one ${name}`, async (t) => {
      const { client, server, embedding } = await startBoth(t, { embeddingApiKey: 'sk-embed' });
      const names: (string | undefined)[] = [];
      embedding.play(answer);
      names.push(said.exec((await failsWith(client.embed(['x']), code)).message)?.[1]);
      server.play(answer);
      names.push(said.exec((await failsWith(ask(client), code)).message)?.[1]);
      assert.deepEqual(
        names,
        name === 'refuses the key'
          ? ['MODEL_EMBEDDING_API_KEY', 'MODEL_API_KEY']
          : ['MODEL_EMBEDDING_BASE_URL', 'MODEL_BASE_URL'],
      );
    });
  }

  test('without an address or a key of its own, the embedding server goes by the others', async (t) => {
    const { client } = await startScene(t, [{ status: 401, body: '' }]);
    const error = await failsWith(client.embed(['x']), 'MODEL_REJECTED');
    assert.match(error.message, /Check MODEL_API_KEY\.$/);
  });
});

test('a width that does not fit says which variables to change', async (t) => {
  const { client } = await startScene(t, [embeddings([Array<number>(768).fill(1)])]);
  const error = await failsWith(client.embed(['x']), 'MODEL_INVALID_OUTPUT');
  assert.match(
    error.message,
    /^MODEL_EMBEDDING \(embeddinggemma\) gave an embedding of 768 numbers, but EMBEDDING_DIMENSIONS is 3\./,
  );
});
