import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { Type } from 'typebox';
import { Parse } from 'typebox/value';
import { type ScriptedResponse, createEmbeddings } from '../src/testing.ts';
import { createChat, expectFailure, failure, startScene } from './support.ts';

const EmbedBody = Type.Object({ input: Type.Array(Type.String()) });

suite('embedding', () => {
  test('Finite vectors of the right width are unchanged', async (t) => {
    const vectors = [
      [1e-18, 0, 1e-300],
      [1e19, 0.5, -2],
    ];
    const { client, server, events } = await startScene(t, [createEmbeddings(vectors)]);
    assert.deepEqual(await client.embed(['one', 'two']), {
      vectors,
      model: 'embeddinggemma',
      usage: { calls: 1, inputTokens: 8, outputTokens: null },
    });
    assert.equal(server.requests[0]?.path, '/v1/embeddings');
    assert.deepEqual(server.requests[0]?.body, {
      model: 'embeddinggemma',
      input: ['one', 'two'],
      encoding_format: 'float',
    });
    assert.deepEqual(
      events.map(({ operation, outcome }) => [operation, outcome]),
      [['embed', 'ok']],
    );
  });

  test('Vectors are ordered by their indexes', async (t) => {
    const [one, two] = [
      [1, 1, 1],
      [2, 2, 2],
    ];
    const { client } = await startScene(t, [createEmbeddings([two, one], { indexes: [1, 0] })]);
    assert.deepEqual((await client.embed(['a', 'b'])).vectors, [one, two]);
  });

  test('Many texts are embedded in batches of 32, each with separate attempts', async (t) => {
    const texts = Array.from({ length: 150 }, (_, index) => String(index));
    const sizes: number[] = [];
    let failureCount = 0;
    const { client, server } = await startScene(t, [
      ({ body }) => {
        const { input } = Parse(EmbedBody, body);
        // Every batch fails twice before it succeeds.
        if (failureCount < 2) {
          failureCount += 1;
          return failure.loading;
        }
        failureCount = 0;
        sizes.push(input.length);
        return createEmbeddings(input.map((text) => [Number(text), 1, 0]));
      },
    ]);
    const { vectors, usage } = await client.embed(texts);
    assert.deepEqual(sizes, [32, 32, 32, 32, 22]);
    assert.deepEqual(
      vectors.map(([first]) => first),
      texts.map(Number),
    );
    assert.equal(server.requests.length, 15);
    assert.deepEqual(usage, { calls: 15, inputTokens: 40, outputTokens: null });
  });
});

// 1e999 is valid JSON, and JSON.parse returns infinity for it.
const OVERFLOWING =
  '{"data":[{"index":0,"embedding":[1,2,3]},{"index":1,"embedding":[1e999,0,0]}]}';

suite('invalid vectors', () => {
  const validVector = [1, 2, 3];
  const invalidResponses: [name: string, answer: ScriptedResponse, pattern: RegExp][] = [
    [
      'another width',
      createEmbeddings([validVector, [1, 2, 3, 4]]),
      /MODEL_EMBEDDING.*4 numbers.*EMBEDDING_DIMENSIONS is 3/,
    ],
    ['no width', createEmbeddings([validVector, []]), /0 numbers.*EMBEDDING_DIMENSIONS is 3/],
    ['zeros', createEmbeddings([validVector, [0, 0, -0]]), /MODEL_EMBEDDING.*zeros/],
    // pgvector stores single precision, and computes useless distances for very large and very small vectors.
    ['infinity in single precision', createEmbeddings([[1e39, 1, 0], validVector]), /not finite/],
    [
      'zeros in single precision',
      createEmbeddings([[1e-46, -1e-300, 0], validVector]),
      /zeros only/,
    ],
    ['squares past the range', createEmbeddings([validVector, [1e30, 0, 0]]), /too large/],
    ['squares below the range', createEmbeddings([validVector, [3e-23, 0, 0]]), /too small/],
    // llama.cpp writes NaN and infinity as null.
    [
      'null for NaN',
      createEmbeddings([validVector, [1, null, 3]]),
      /MODEL_EMBEDDING.*embedding model/,
    ],
    ['numbers past the range', { body: OVERFLOWING }, /MODEL_EMBEDDING/],
    ['NaN, which is not JSON', { body: '{"data":[{"embedding":[NaN]}]}' }, /not JSON/],
    ['too few', createEmbeddings([validVector]), /MODEL_EMBEDDING/],
    ['too many', createEmbeddings([validVector, validVector, validVector]), /MODEL_EMBEDDING/],
    [
      'an index twice',
      createEmbeddings([validVector, validVector], { indexes: [0, 0] }),
      /MODEL_EMBEDDING/,
    ],
    ['a chat completion', createChat('hello'), /MODEL_EMBEDDING/],
  ];
  for (const [name, answer, pattern] of invalidResponses) {
    test(`An invalid vector is rejected without a retry: ${name}`, async (t) => {
      const { client, server, outcomes } = await startScene(t, [answer]);
      const error = await expectFailure(client.embed(['a', 'b']), 'MODEL_INVALID_OUTPUT');
      assert.match(error.message, pattern);
      assert.equal(error.retryable, false);
      assert.equal(server.requests.length, 1);
      assert.deepEqual(outcomes(), ['MODEL_INVALID_OUTPUT']);
    });
  }
});

/** Starts an embedding server with a token limit, and a client. One token is `tokenLength` characters. */
function startEmbedding(
  t: Parameters<typeof startScene>[0],
  {
    limit = 512,
    tokenLength = 3,
    respond,
  }: { limit?: number; tokenLength?: number; respond: (tokens: number) => ScriptedResponse },
) {
  return startScene(t, [
    ({ body }) => {
      const { input } = Parse(EmbedBody, body);
      const maxTokens = Math.max(...input.map((text) => Math.ceil(text.length / tokenLength)));
      return maxTokens > limit ? respond(maxTokens) : createEmbeddings(input.map(() => [1, 2, 3]));
    },
  ]);
}

const createLlamaCppError = (tokens: number): ScriptedResponse => ({
  status: 500,
  body: {
    error: {
      code: 500,
      message: `input (${tokens} tokens) is too large to process. increase the physical batch size (current batch size: 512)`,
      type: 'server_error',
    },
  },
});
const createOllamaError = (): ScriptedResponse => ({
  status: 400,
  body: { error: { message: 'the input length exceeds the context length' } },
});

suite('long texts', () => {
  const longText = 'Квартира у Львові. '.repeat(300);

  test('Long texts are shortened to the size that the server reports, later ones in advance', async (t) => {
    const { client, server, outcomes } = await startEmbedding(t, { respond: createLlamaCppError });
    const { vectors, usage } = await client.embed(['short', longText]);
    assert.equal(vectors.length, 2);
    assert.deepEqual(outcomes(), ['MODEL_INPUT_TOO_LARGE', 'ok']);
    assert.equal(usage.calls, 2);
    const [, second] = server.requests.map(({ body }) => Parse(EmbedBody, body).input);
    assert.equal(second?.[0], 'short');
    const truncatedText = second?.[1] ?? '';
    assert.ok(
      longText.startsWith(truncatedText) && truncatedText.length > 1000,
      `${truncatedText.length} characters remain`,
    );

    await client.embed([longText]);
    await client.embed(['Два рядки', longText]);
    assert.equal(server.requests.length, 4, 'the limit is remembered');
  });

  test('Long texts are halved until they fit if the server reports no size', async (t) => {
    const { client, events, outcomes } = await startEmbedding(t, { respond: createOllamaError });
    await client.embed([longText]);
    assert.deepEqual(outcomes(), ['MODEL_INPUT_TOO_LARGE', 'MODEL_INPUT_TOO_LARGE', 'ok']);
    await client.embed([longText]);
    assert.equal(events.length, 4);
  });

  test('Long texts do not count for the breaker, and fail if little text is left', async (t) => {
    const { client, server } = await startScene(t, [createOllamaError()], {
      breaker: { failures: 1 },
    });
    await expectFailure(client.embed([longText]), 'MODEL_INPUT_TOO_LARGE');
    assert.ok(server.requests.length < 10, `${server.requests.length} requests`);
    assert.equal(client.breaker.state, 'closed');
  });
});
