import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type ModelCallEvent, type ModelClient, ModelError } from '@oselya/model';
import { createBatchingEmbedder, splitIntoRequests } from '../../src/embeddings/batches.ts';

type Request = { texts: readonly string[]; signal: AbortSignal | undefined };

/** Creates a model that calls `answer`, and then embeds each text as its length. */
function modelOf(answer: (texts: readonly string[]) => Promise<void> | void = () => undefined) {
  const requests: Request[] = [];
  const embed: ModelClient['embed'] = async (texts, { signal, observe } = {}) => {
    requests.push({ texts, signal });
    const event = { operation: 'embed', outcome: 'ok', durationMs: 1 } as const;
    observe?.({ ...event, inputTokens: 100, outputTokens: null });
    await answer(texts);
    const usage = { calls: 1, inputTokens: 100, outputTokens: null };
    return { vectors: texts.map((text) => [text.length]), model: 'test', usage };
  };
  return { requests, embed };
}

function wantedOf(text: string, signal = new AbortController().signal) {
  const events: ModelCallEvent[] = [];
  return { text, signal, events, observe: (event: ModelCallEvent) => events.push(event) };
}

test('Texts of about the same time share a request and its tokens', async () => {
  const model = modelOf();
  const embedText = createBatchingEmbedder(model);
  const wanted = ['a', 'bb', 'bb', 'dddd'].map((text) => wantedOf(text));
  const embedded = await Promise.all(wanted.map(embedText));
  assert.deepEqual(embedded, [
    { vector: [1], model: 'test' },
    { vector: [2], model: 'test' },
    { vector: [2], model: 'test' },
    { vector: [4], model: 'test' },
  ]);
  assert.deepEqual(
    model.requests.map(({ texts }) => texts),
    [['a', 'bb', 'bb', 'dddd']],
  );
  const tokens = wanted.map(({ events }) => events.map(({ inputTokens }) => inputTokens));
  assert.deepEqual(tokens, [[11], [22], [23], [44]]);
});

test('A separate text has a separate request', async () => {
  const model = modelOf();
  const embedText = createBatchingEmbedder(model);
  const alone = { ...wantedOf('aaa'), alone: true };
  await Promise.all([wantedOf('a'), alone, wantedOf('aa')].map(embedText));
  assert.deepEqual(
    model.requests.map(({ texts }) => texts),
    [['aaa'], ['a', 'aa']],
  );
  const failing = createBatchingEmbedder({ embed: () => Promise.reject(new Error('it failed')) });
  await assert.rejects(failing(alone), /it failed/);
});

test('A request has at most 64 texts, and a limit of bytes that one text may exceed', async () => {
  const model = modelOf();
  const embedText = createBatchingEmbedder(model);
  await Promise.all(Array.from({ length: 150 }, () => embedText(wantedOf('a'))));
  assert.deepEqual(
    model.requests.map(({ texts }) => texts.length),
    [64, 64, 22],
  );
  const wanted = ['aaa', 'bbb', 'йо', 'cc', 'ddddddddd', 'e'].map((text) => wantedOf(text));
  const requests = splitIntoRequests(wanted, 6).map((some) => some.map(({ text }) => text));
  assert.deepEqual(requests, [['aaa', 'bbb'], ['йо', 'cc'], ['ddddddddd'], ['e']]);
});

test('A text that cannot be embedded fails alone', async () => {
  const error = new ModelError('MODEL_INVALID_OUTPUT', 'An embedding of zeros only.');
  const model = modelOf((texts) => {
    if (texts.includes('bad')) throw error;
  });
  const embedText = createBatchingEmbedder(model);
  const results = await Promise.allSettled(
    ['a', 'bad', 'cc'].map((text) => embedText(wantedOf(text))),
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
    const model = modelOf(() => {
      throw new ModelError(code, 'gone');
    });
    const embedText = createBatchingEmbedder(model);
    const results = await Promise.allSettled(['a', 'b'].map((text) => embedText(wantedOf(text))));
    assert.ok(results.every(({ status }) => status === 'rejected'));
    assert.equal(model.requests.length, 1);
  }
});

test('A request is aborted once all of its callers are', async () => {
  const sent = Promise.withResolvers<void>();
  const answer = Promise.withResolvers<void>();
  const model = modelOf(() => {
    sent.resolve();
    return answer.promise;
  });
  const embedText = createBatchingEmbedder(model);
  const [first, second] = [new AbortController(), new AbortController()];
  const wanted = [wantedOf('a', first.signal), wantedOf('b', second.signal)];
  const both = wanted.map(embedText);
  await sent.promise;
  first.abort(new Error('lease lost'));
  assert.equal(model.requests[0]?.signal?.aborted, false);
  second.abort(new Error('shutting down'));
  assert.equal(model.requests[0]?.signal?.aborted, true);
  answer.resolve();
  await Promise.all(both);
  const reason = new Error('lease lost');
  await assert.rejects(embedText(wantedOf('a', AbortSignal.abort(reason))), reason);
  assert.equal(model.requests.length, 1);
});
