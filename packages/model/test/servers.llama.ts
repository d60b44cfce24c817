import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { Type } from 'typebox';
import {
  createModelClient,
  defineCompletion,
  imageDescription,
  type ModelClient,
  type ModelClientOptions,
  ModelError,
} from '../src/index.ts';
import { startLlamaServer, WIDTH } from '@oselya/testing/llama';
import { expectFailure } from './support.ts';

// The model has random weights: its answers are meaningless, but the server is real.
const SLOT = 4_096;
const [chat, embedder] = await Promise.all([
  startLlamaServer('--ctx-size', String(2 * SLOT), '--parallel', '2', '--alias', 'random'),
  startLlamaServer('--embeddings', '--pooling', 'mean', '--alias', 'random-embedder'),
]);
after(() => Promise.all([chat.close(), embedder.close()]));

function createClient(options: Partial<ModelClientOptions> = {}) {
  const client = createModelClient({
    mode: 'openai',
    baseUrl: chat.url,
    embeddingBaseUrl: embedder.url,
    chat: 'random',
    embedding: 'random-embedder',
    embeddingDimensions: WIDTH,
    timeoutMs: 60_000,
    retry: { attempts: 1 },
    ...options,
  });
  after(() => client.close());
  return client;
}
const client = createClient();

const smallSchema = Type.Object({
  deal: Type.Union([Type.Enum(['sale', 'rent']), Type.Null()]),
  rooms: Type.Union([Type.Number(), Type.Null()]),
  isNew: Type.Boolean(),
});
const smallCompletion = defineCompletion({
  schemaName: 'small',
  schema: smallSchema,
  maxOutputTokens: 1_000,
});
const question = { operation: 'test', system: 'Read.', data: { title: 'Квартира у Львові' } };

/** Returns the error of a call; undefined after a success. */
const getFailureReason = (call: Promise<unknown>) => call.then(() => undefined, String);

/** Waits until a call fails with an error that is not retryable, and returns the message. */
async function expectRejection(call: Promise<unknown>): Promise<string> {
  const error = await call.then(
    () => assert.fail('the call succeeded'),
    (reason: unknown) => reason,
  );
  assert.ok(error instanceof ModelError && !error.retryable, String(error));
  return error.message;
}

test('A grammar keeps a small answer within its schema without a repair', async () => {
  for (let index = 0; index < 5; index += 1) {
    const { value, usage, model } = await client.generateObject({
      ...question,
      ...smallCompletion,
    });
    assert.deepEqual(Object.keys(value), ['deal', 'rooms', 'isNew']);
    assert.equal(usage.calls, 1);
    assert.ok((usage.inputTokens ?? 0) > 100 && (usage.outputTokens ?? 0) > 5, 'tokens');
    assert.equal(model, 'random');
  }
});

test('An answer ends at its limit', async () => {
  const endlessRequest = { ...smallCompletion, maxOutputTokens: 3 };
  await expectFailure(client.generateObject({ ...question, ...endlessRequest }), 'MODEL_TRUNCATED');
});

test('A text-only server rejects an image with its reason, and continues to chat', async () => {
  const image = { bytes: Uint8Array.of(0xff, 0xd8, 0xff), mediaType: 'image/jpeg' };
  const request = { ...question, ...imageDescription, image };
  for (let index = 0; index < 6; index += 1) {
    const reason = await expectRejection(client.generateObject(request));
    assert.match(reason, /image input is not supported/);
  }
  assert.equal(client.breaker.state, 'closed');
  await client.generateObject({ ...question, ...smallCompletion });
});

test('A question longer than the context is rejected with both sizes', async () => {
  const data = 'слово '.repeat(SLOT);
  const completionRequest = client.generateObject({ ...question, ...smallCompletion, data });
  assert.match(
    await expectRejection(completionRequest),
    /exceeds the available context size \(4096 tokens\)/,
  );
});

test('Embeddings have the order of the texts, the width of the model, and tokens', async () => {
  const { vectors, usage } = await client.embed(['flat', 'room', 'flat']);
  assert.deepEqual([vectors.length, vectors[0]?.length], [3, WIDTH]);
  assert.deepEqual(vectors[0], vectors[2]);
  assert.notDeepEqual(vectors[0], vectors[1]);
  assert.ok((usage.inputTokens ?? 0) > 0);
  const wideClient = createClient({ embeddingDimensions: 384 });
  const error = await expectFailure(wideClient.embed(['flat']), 'MODEL_INVALID_OUTPUT');
  assert.match(error.message, new RegExp(`of ${WIDTH} numbers, but EMBEDDING_DIMENSIONS is 384`));
});

test('A chat server reports that it has no embeddings', async () => {
  const reason = await expectRejection(
    createClient({ embeddingBaseUrl: chat.url }).embed(['flat']),
  );
  assert.match(reason, /does not support embeddings/);
});

test('A stream has several parts and its tokens, and ends at its limit', async () => {
  const messages = [{ role: 'user', content: 'Привіт' }] as const;
  const request = { operation: 'test', system: 'Help.', messages };
  const parts = await Array.fromAsync(client.streamChat({ ...request, maxOutputTokens: 3 }));
  const end = parts.at(-1);
  assert.ok(end?.type === 'end');
  assert.ok(end.usage.outputTokens !== null && end.usage.outputTokens <= 3);
  assert.ok((end.usage.inputTokens ?? 0) > 5);
});

test('Concurrent answers that exceed the shared context fail with that reason, also within a stream', async () => {
  const sizes = ['--ctx-size', '512', '--parallel', '4', '--kv-unified'];
  await using shared = await startLlamaServer(...sizes);
  const endlessRequest = defineCompletion({
    schemaName: 'endless',
    schema: Type.Object({ words: Type.Array(Type.Enum(['flat', 'room'])) }),
    maxOutputTokens: 500,
  });
  const data = 'rent '.repeat(40);
  const stream = {
    operation: 'test',
    system: 'Help.',
    messages: [{ role: 'user', content: data }] as const,
  };
  for (const ask of [
    (sharedClient: ModelClient) =>
      sharedClient.generateObject({ ...question, ...endlessRequest, data }),
    (sharedClient: ModelClient) => Array.fromAsync(sharedClient.streamChat(stream)),
  ]) {
    const sharedClient = createClient({ baseUrl: shared.url });
    const reasons = await Promise.all(
      Array.from({ length: 8 }, () => getFailureReason(ask(sharedClient))),
    );
    assert.ok(
      reasons.some((reason) => /^ModelError: .*context size has been exceeded/i.test(reason ?? '')),
      reasons.join('\n'),
    );
  }
});
