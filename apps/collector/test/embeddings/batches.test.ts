import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { ModelCallEvent, ModelClient } from '@oselya/model';
import { splitBySize } from '../../src/async/group-commit.ts';
import { createBatchingEmbedder } from '../../src/embeddings/batches.ts';

/** Creates a model that calls `respond`, and then embeds each text as its length. */
function createModel(
  respond: (texts: readonly string[]) => Promise<void> | void = () => undefined,
) {
  const requestedTexts: (readonly string[])[] = [];
  const signals: (AbortSignal | undefined)[] = [];
  const embed: ModelClient['embed'] = async (texts, { signal, observe } = {}) => {
    requestedTexts.push(texts);
    signals.push(signal);
    const event = { operation: 'embed', outcome: 'ok', durationMs: 1 } as const;
    observe?.({ ...event, inputTokens: 100, outputTokens: null });
    await respond(texts);
    const usage = { calls: 1, inputTokens: 100, outputTokens: null };
    return { vectors: texts.map((text) => [text.length]), model: 'test', usage };
  };
  return { requestedTexts, signals, embed };
}

function createRequest(text: string, signal = new AbortController().signal) {
  const events: ModelCallEvent[] = [];
  return { text, signal, events, observe: (event: ModelCallEvent) => events.push(event) };
}

test('Concurrent texts share a request and its tokens', async () => {
  const model = createModel();
  const embedText = createBatchingEmbedder(model);
  const embedRequests = ['a', 'bb', 'bb', 'dddd'].map((text) => createRequest(text));
  const embeddings = await Promise.all(embedRequests.map(embedText));
  const expected = [1, 2, 2, 4].map((length) => ({ vector: [length], model: 'test' }));
  assert.deepEqual(embeddings, expected);
  assert.deepEqual(model.requestedTexts, [['a', 'bb', 'bb', 'dddd']]);
  const tokens = embedRequests.map(({ events }) => events.map(({ inputTokens }) => inputTokens));
  assert.deepEqual(tokens, [[11], [22], [23], [44]]);
});

test('A separate text has a separate request', async () => {
  const model = createModel();
  const embedText = createBatchingEmbedder(model);
  const separateRequest = { ...createRequest('aaa'), isAlone: true };
  await Promise.all([createRequest('a'), separateRequest, createRequest('aa')].map(embedText));
  assert.deepEqual(model.requestedTexts, [['aaa'], ['a', 'aa']]);
  const embedWithFailure = createBatchingEmbedder({
    embed: () => Promise.reject(new Error('it failed')),
  });
  await assert.rejects(embedWithFailure(separateRequest), /it failed/);
});

test('A request has at most 32 texts, and a limit of bytes that one text may exceed', async () => {
  const model = createModel();
  const embedText = createBatchingEmbedder(model);
  await Promise.all(Array.from({ length: 150 }, () => embedText(createRequest('a'))));
  const sizes = model.requestedTexts.map((texts) => texts.length);
  assert.deepEqual(sizes, [32, 32, 32, 32, 22]);
  const texts = ['aaa', 'bbb', 'йо', 'cc', 'ddddddddd', 'e'];
  const batches = splitBySize(texts, (text) => Buffer.byteLength(text), 6);
  assert.deepEqual(batches, [['aaa', 'bbb'], ['йо', 'cc'], ['ddddddddd'], ['e']]);
});

test('A request is aborted after all of its callers have aborted', async () => {
  const requestSent = Promise.withResolvers<void>();
  const response = Promise.withResolvers<void>();
  const model = createModel(() => {
    requestSent.resolve();
    return response.promise;
  });
  const embedText = createBatchingEmbedder(model);
  const [firstController, secondController] = [new AbortController(), new AbortController()];
  const embedRequests = [
    createRequest('a', firstController.signal),
    createRequest('b', secondController.signal),
  ];
  const pendingEmbeddings = embedRequests.map(embedText);
  await requestSent.promise;
  firstController.abort(new Error('lease lost'));
  assert.equal(model.signals[0]?.aborted, false);
  secondController.abort(new Error('shutting down'));
  assert.equal(model.signals[0]?.aborted, true);
  response.resolve();
  await Promise.all(pendingEmbeddings);
  const reason = new Error('lease lost');
  await assert.rejects(embedText(createRequest('a', AbortSignal.abort(reason))), reason);
  assert.equal(model.requestedTexts.length, 1);
});
