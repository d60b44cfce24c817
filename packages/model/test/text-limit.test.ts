import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import fc from 'fast-check';
import { Type } from 'typebox';
import { Parse } from 'typebox/value';
import { createTextLimit } from '../src/text-limit.ts';
import { embeddings } from '../src/testing.ts';
import type { Answer } from './scripted-server.ts';
import { ModelError } from '../src/index.ts';
import { failsWith, startScene } from './test-client.ts';

const EmbedBody = Type.Object({ input: Type.Array(Type.String()) });

/** A server that counts a token for so many letters, and takes so many tokens. */
function startEmbedding(
  t: Parameters<typeof startScene>[0],
  {
    limit = 512,
    letters = 3,
    say,
  }: { limit?: number; letters?: number; say: (tokens: number) => Answer },
) {
  return startScene(t, [
    ({ body }) => {
      const { input } = Parse(EmbedBody, body);
      const most = Math.max(...input.map((text) => Math.ceil(text.length / letters)));
      return most > limit ? say(most) : embeddings(input.map(() => [1, 2, 3]));
    },
  ]);
}

const llamaCpp = (tokens: number): Answer => ({
  status: 500,
  body: {
    error: {
      code: 500,
      message: `input (${tokens} tokens) is too large to process. increase the physical batch size (current batch size: 512)`,
      type: 'server_error',
    },
  },
});
const ollama = (): Answer => ({
  status: 400,
  body: { error: { message: 'the input length exceeds the context length' } },
});

suite('texts that are too long to embed', () => {
  const long = 'Квартира у Львові. '.repeat(300);

  test('are shortened by the sizes that the server names, and later ones at once', async (t) => {
    const { client, server, events } = await startEmbedding(t, { say: llamaCpp });
    const { vectors, usage } = await client.embed(['short', long]);
    assert.equal(vectors.length, 2);
    assert.deepEqual(
      events.map(({ outcome }) => outcome),
      ['MODEL_INPUT_TOO_LARGE', 'ok'],
    );
    assert.equal(usage.calls, 2);
    const [, second] = server.requests.map(({ body }) => Parse(EmbedBody, body).input);
    assert.equal(second?.[0], 'short');
    const kept = second?.[1] ?? '';
    assert.ok(long.startsWith(kept) && kept.length > 1000, `${kept.length} letters were kept`);

    await client.embed([long]);
    await client.embed(['Два рядки', long]);
    assert.equal(server.requests.length, 4, 'the limit is remembered');
  });

  test('are halved until they fit where the server names no sizes', async (t) => {
    const { client, events } = await startEmbedding(t, { say: ollama });
    await client.embed([long]);
    const outcomes = events.map(({ outcome }) => outcome);
    assert.deepEqual(outcomes, ['MODEL_INPUT_TOO_LARGE', 'MODEL_INPUT_TOO_LARGE', 'ok']);
    await client.embed([long]);
    assert.equal(events.length, 4);
  });

  test('move no breaker, and end with the error where nothing of use is left', async (t) => {
    const { client, server } = await startScene(t, [ollama()], { breaker: { failures: 1 } });
    await failsWith(client.embed([long]), 'MODEL_INPUT_TOO_LARGE');
    assert.ok(server.requests.length < 10, `${server.requests.length} requests`);
    assert.equal(client.breaker.state, 'closed');
  });

  test('are not cut for one odd text by more than a usual one needs', async (t) => {
    const { client, server } = await startEmbedding(t, { letters: 1, say: llamaCpp });
    await client.embed(['x'.repeat(6000)]);
    await client.embed([long]);
    const sizes = server.requests.map(({ body }) =>
      Buffer.byteLength(Parse(EmbedBody, body).input[0] ?? ''),
    );
    assert.deepEqual(sizes.slice(0, 3), [6000, 460, 1024]);
  });
});

test('what is kept of a text is its beginning, whole characters, within the limit', () => {
  fc.assert(
    fc.property(
      fc.string({ unit: 'grapheme', minLength: 40, maxLength: 400 }),
      fc.nat({ max: 3000 }),
      (text, given) => {
        const limits = createTextLimit();
        const error = new ModelError('MODEL_INPUT_TOO_LARGE', 'too large', {
          tokens: { given: 400 + given, limit: 100 },
        });
        const [kept] = limits.shorten([text], error) ?? [];
        if (kept === undefined) return;
        assert.ok(text.startsWith(kept) && kept.length < text.length);
        assert.ok(!kept.includes('\uFFFD') || text.includes('\uFFFD'));
        assert.equal(limits.cut(['']).at(0), '');
      },
    ),
  );
});
