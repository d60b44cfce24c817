import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type ModelCallEvent, type ModelClient, ModelError } from '@oselya/model';
import { createBatchingEmbedder, splitIntoRequests } from '../../src/embeddings/batches.ts';

type Request = { texts: readonly string[]; signal: AbortSignal | undefined };

/** Creates a model that calls `respond`, and then embeds each text as its length. */
function createModel(
  respond: (texts: readonly string[]) => Promise<void> | void = () => undefined,
) {
  const requests: Request[] = [];
  const embed: ModelClient['embed'] = async (texts, { signal, observe } = {}) => {
    requests.push({ texts, signal });
    const event = { operation: 'embed', outcome: 'ok', durationMs: 1 } as const;
    observe?.({ ...event, inputTokens: 100, outputTokens: null });
    await respond(texts);
    const usage = { calls: 1, inputTokens: 100, outputTokens: null };
    return { vectors: texts.map((text) => [text.length]), model: 'test', usage };
  };
  return { requests, embed };
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
  assert.deepEqual(embeddings, [
    { vector: [1], model: 'test' },
    { vector: [2], model: 'test' },
    { vector: [2], model: 'test' },
    { vector: [4], model: 'test' },
  ]);
  assert.deepEqual(
    model.requests.map(({ texts }) => texts),
    [['a', 'bb', 'bb', 'dddd']],
  );
  const tokens = embedRequests.map(({ events }) => events.map(({ inputTokens }) => inputTokens));
  assert.deepEqual(tokens, [[11], [22], [23], [44]]);
});

test('A separate text has a separate request', async () => {
  const model = createModel();
  const embedText = createBatchingEmbedder(model);
  const separateRequest = { ...createRequest('aaa'), alone: true };
  await Promise.all([createRequest('a'), separateRequest, createRequest('aa')].map(embedText));
  assert.deepEqual(
    model.requests.map(({ texts }) => texts),
    [['aaa'], ['a', 'aa']],
  );
  const embedWithFailure = createBatchingEmbedder({
    embed: () => Promise.reject(new Error('it failed')),
  });
  await assert.rejects(embedWithFailure(separateRequest), /it failed/);
});

test('A request has at most 64 texts, and a limit of bytes that one text may exceed', async () => {
  const model = createModel();
  const embedText = createBatchingEmbedder(model);
  await Promise.all(Array.from({ length: 150 }, () => embedText(createRequest('a'))));
  assert.deepEqual(
    model.requests.map(({ texts }) => texts.length),
    [64, 64, 22],
  );
  const embedRequests = ['aaa', 'bbb', 'йо', 'cc', 'ddddddddd', 'e'].map((text) =>
    createRequest(text),
  );
  const requests = splitIntoRequests(embedRequests, 6).map((batch) =>
    batch.map(({ text }) => text),
  );
  assert.deepEqual(requests, [['aaa', 'bbb'], ['йо', 'cc'], ['ddddddddd'], ['e']]);
});

test('A text that cannot be embedded fails alone', async () => {
  const error = new ModelError('MODEL_INVALID_OUTPUT', 'An embedding of zeros only.');
  const model = createModel((texts) => {
    if (texts.includes('bad')) throw error;
  });
  const embedText = createBatchingEmbedder(model);
  const results = await Promise.allSettled(
    ['a', 'bad', 'cc'].map((text) => embedText(createRequest(text))),
  );
  assert.deepEqual(
    results.map((result) => (result.status === 'rejected' ? result.reason : result.value.vector)),
    [[1], error, [2]],
  );
  assert.deepEqual(
    model.requests.map(({ texts }) => texts),
    [['a', 'bad', 'cc'], ['a'], ['bad'], ['cc']],
  );
});

test('A failure of the server fails all texts of a request, and no request follows', async () => {
  for (const code of ['MODEL_UNREACHABLE', 'MODEL_BREAKER_OPEN', 'MODEL_CLOSED'] as const) {
    const model = createModel(() => {
      throw new ModelError(code, 'gone');
    });
    const embedText = createBatchingEmbedder(model);
    const results = await Promise.allSettled(
      ['a', 'b'].map((text) => embedText(createRequest(text))),
    );
    assert.ok(results.every(({ status }) => status === 'rejected'));
    assert.equal(model.requests.length, 1);
  }
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
  assert.equal(model.requests[0]?.signal?.aborted, false);
  secondController.abort(new Error('shutting down'));
  assert.equal(model.requests[0]?.signal?.aborted, true);
  response.resolve();
  await Promise.all(pendingEmbeddings);
  const reason = new Error('lease lost');
  await assert.rejects(embedText(createRequest('a', AbortSignal.abort(reason))), reason);
  assert.equal(model.requests.length, 1);
});
