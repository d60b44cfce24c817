import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { Type } from 'typebox';
import { Parse } from 'typebox/value';
import { embeddings } from '../src/testing.ts';
import type { Answer } from './scripted-server.ts';
import { chat, failure } from './server-answers.ts';
import { failsWith, startScene } from './test-client.ts';

const EmbedBody = Type.Object({ input: Type.Array(Type.String()) });

suite('embedding', () => {
  test('sends the texts and gives a vector for each', async (t) => {
    const { client, server, events } = await startScene(t, [
      embeddings([
        [1, 0, 0],
        [0, 0.5, -2],
      ]),
    ]);
    assert.deepEqual(await client.embed(['one', 'two']), {
      vectors: [
        [1, 0, 0],
        [0, 0.5, -2],
      ],
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

  test('follows the indexes of a server that answers out of order', async (t) => {
    const { client } = await startScene(t, [
      embeddings(
        [
          [3, 3, 3],
          [1, 1, 1],
          [2, 2, 2],
        ],
        { indexes: [2, 0, 1] },
      ),
    ]);
    const { vectors } = await client.embed(['a', 'b', 'c']);
    assert.deepEqual(
      vectors.map(([first]) => first),
      [1, 2, 3],
    );
  });

  test('takes the order as it is from a server that gives no indexes', async (t) => {
    const body = { data: [{ embedding: [1, 1, 1] }, { embedding: [2, 2, 2] }] };
    const { client } = await startScene(t, [{ body }]);
    const { vectors, usage } = await client.embed(['a', 'b']);
    assert.deepEqual(vectors, [
      [1, 1, 1],
      [2, 2, 2],
    ]);
    assert.deepEqual(usage, { calls: 1, inputTokens: null, outputTokens: null });
  });

  test('of many texts goes in batches of 64, each with attempts of its own', async (t) => {
    const texts = Array.from({ length: 150 }, (_, index) => String(index));
    const sizes: number[] = [];
    let failed = 0;
    const { client, server } = await startScene(t, [
      ({ body }) => {
        const { input } = Parse(EmbedBody, body);
        // Every batch fails twice before it succeeds.
        if (failed < 2) {
          failed += 1;
          return failure.llamaCppLoading;
        }
        failed = 0;
        sizes.push(input.length);
        return embeddings(input.map((text) => [Number(text), 1, 0]));
      },
    ]);
    const { vectors, usage } = await client.embed(texts);
    assert.deepEqual(sizes, [64, 64, 22]);
    assert.deepEqual(
      vectors.map(([first]) => first),
      texts.map(Number),
    );
    assert.equal(server.requests.length, 9);
    assert.deepEqual(usage, { calls: 9, inputTokens: 24, outputTokens: null });
  });

  for (const [answer, code] of [
    ['reset', 'MODEL_UNREACHABLE'],
    [failure.ollamaCrash, 'MODEL_UNAVAILABLE'],
    [failure.ollamaMissingModel, 'MODEL_REJECTED'],
  ] as const) {
    const attempts = code === 'MODEL_REJECTED' ? 1 : 3;
    test(`ends with ${code} after exactly ${attempts} requests`, async (t) => {
      const { client, server } = await startScene(t, [answer]);
      await failsWith(client.embed(['a']), code);
      assert.equal(server.requests.length, attempts);
    });
  }

  test('of nothing asks nothing', async (t) => {
    const { client, server } = await startScene(t, []);
    assert.deepEqual((await client.embed([])).vectors, []);
    assert.equal(server.requests.length, 0);
  });
});

// 1e999 is valid JSON, and infinity once it is parsed.
const OVERFLOWING =
  '{"data":[{"index":0,"embedding":[1,2,3]},{"index":1,"embedding":[1e999,0,0]}]}';

suite('embeddings that would corrupt a search', () => {
  const good = [1, 2, 3];
  const bad: [name: string, answer: Answer, said: RegExp][] = [
    [
      'another width',
      embeddings([good, [1, 2, 3, 4]]),
      /MODEL_EMBEDDING.*4 numbers.*EMBEDDING_DIMENSIONS is 3/,
    ],
    ['no width', embeddings([good, []]), /0 numbers.*EMBEDDING_DIMENSIONS is 3/],
    ['zeros', embeddings([good, [0, 0, -0]]), /MODEL_EMBEDDING.*zeros/],
    // llama.cpp writes NaN and infinity as null.
    ['null for NaN', embeddings([good, [1, null, 3]]), /MODEL_EMBEDDING.*embedding model/],
    ['numbers past the range', { body: OVERFLOWING }, /MODEL_EMBEDDING/],
    ['NaN, which is no JSON', { body: '{"data":[{"embedding":[NaN]}]}' }, /not JSON/],
    ['too few', embeddings([good]), /MODEL_EMBEDDING/],
    ['too many', embeddings([good, good, good]), /MODEL_EMBEDDING/],
    ['an index twice', embeddings([good, good], { indexes: [0, 0] }), /MODEL_EMBEDDING/],
    ['a chat completion', chat.ollama('hello'), /MODEL_EMBEDDING/],
  ];
  for (const [name, answer, said] of bad) {
    test(`are refused at the first request: ${name}`, async (t) => {
      const { client, server, events } = await startScene(t, [answer]);
      const error = await failsWith(client.embed(['a', 'b']), 'MODEL_INVALID_OUTPUT');
      assert.match(error.message, said);
      assert.equal(error.retryable, false);
      assert.equal(server.requests.length, 1);
      assert.deepEqual(
        events.map(({ outcome }) => outcome),
        ['MODEL_INVALID_OUTPUT'],
      );
    });
  }
});
