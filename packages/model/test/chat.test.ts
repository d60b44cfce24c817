import assert from 'node:assert/strict';
import type { ServerResponse } from 'node:http';
import { test, type TestContext } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { Type } from 'typebox';
import { type ChatRequest, defineModelSchema } from '../src/index.ts';
import { createChunk, createStreamedResponse, createToolCallChunk } from '../src/testing.ts';
import { parseChatBody, expectFailure, failure, startScene } from './support.ts';

const question: ChatRequest = {
  operation: 'chat',
  system: 'Help to find a flat.',
  messages: [{ role: 'user', content: 'Двокімнатна у Львові?' }],
};

const searchTool = {
  name: 'search_listings',
  description: 'Finds listings by words.',
  input: defineModelSchema('search_listings', Type.Object({ query: Type.String() })),
};

/** Last chunk of a complete answer. */
const stopChunk = createChunk(
  {},
  { finishReason: 'stop', usage: { prompt_tokens: 20, completion_tokens: 3 } },
);

function start(t: TestContext, ...answers: Parameters<typeof createStreamedResponse>[0][]) {
  return startScene(t, answers.map(createStreamedResponse), { timeoutMs: 2000 });
}

test('An answer is streamed with its end and its tokens', async (t) => {
  const secondChunk = Promise.withResolvers<void>();
  const scene = await start(t, [
    createChunk({ role: 'assistant', content: 'Так' }),
    () => secondChunk.promise,
    createChunk({ content: ', є дві.' }),
    stopChunk,
  ]);
  const parts = scene.client.streamChat(question);
  assert.deepEqual((await parts.next()).value, { type: 'text', text: 'Так' });
  secondChunk.resolve();
  assert.deepEqual((await parts.next()).value, { type: 'text', text: ', є дві.' });
  assert.deepEqual((await parts.next()).value, {
    type: 'end',
    reason: 'stop',
    model: 'test',
    usage: { inputTokens: 20, outputTokens: 3 },
  });
  assert.equal((await parts.next()).done, true);
  const [event] = scene.events;
  assert.deepEqual(
    [event?.operation, event?.outcome, event?.inputTokens, event?.outputTokens],
    ['chat', 'ok', 20, 3],
  );
  assert.deepEqual(parseChatBody(scene.server.requests[0]).messages, [
    { role: 'system', content: question.system },
    { role: 'user', content: 'Двокімнатна у Львові?' },
  ]);
});

test('The model calls a tool and continues with its result', async (t) => {
  const scene = await start(
    t,
    [
      createToolCallChunk({
        id: 'call-1',
        name: 'search_listings',
        arguments: '{"query":"Львів"}',
      }),
      createChunk({}, { finishReason: 'tool_calls' }),
    ],
    [createChunk({ content: 'Ось.' }), stopChunk],
  );
  const toolRequest = { ...question, tools: [searchTool] };
  const [call, end] = await Array.fromAsync(scene.client.streamChat(toolRequest));
  const toolCall = { id: 'call-1', name: 'search_listings', input: { query: 'Львів' } };
  assert.deepEqual(call, { type: 'tool_call', call: toolCall });
  assert.equal(end?.type === 'end' && end.reason, 'tool_calls');

  const messages: ChatRequest['messages'] = [
    ...question.messages,
    { role: 'assistant', content: '', toolCalls: [toolCall] },
    { role: 'tool', toolCallId: 'call-1', toolName: 'search_listings', content: '2 found' },
  ];
  const followUpParts = await Array.fromAsync(
    scene.client.streamChat({ ...toolRequest, messages }),
  );
  assert.deepEqual(followUpParts[0], { type: 'text', text: 'Ось.' });
  const sentMessages = parseChatBody(scene.server.requests[1]).messages;
  assert.deepEqual(
    sentMessages.map(({ role }) => role),
    ['system', 'user', 'assistant', 'tool'],
  );
  assert.match(JSON.stringify(sentMessages), /call-1.*2 found/s);
});

test('Tools are sent even if they may not be called', async (t) => {
  const scene = await start(t, [stopChunk], [stopChunk]);
  const toolRequest = { ...question, tools: [searchTool] };
  await Array.fromAsync(scene.client.streamChat(toolRequest));
  await Array.fromAsync(scene.client.streamChat({ ...toolRequest, toolChoice: 'none' }));
  const [firstBody, secondBody] = scene.server.requests.map(parseChatBody);
  assert.deepEqual([firstBody?.tool_choice, secondBody?.tool_choice], ['auto', 'none']);
  assert.equal(firstBody?.tools?.length, 1);
  assert.deepEqual(secondBody?.tools, firstBody?.tools);
});

test('The input of a tool is parsed: an empty one is an object, and invalid JSON stays text', async (t) => {
  const writtenInputs = ['', '  ', '{"query":', 'Львів', '[1]'];
  const calls = writtenInputs.map((input, index) =>
    createToolCallChunk({ id: `call-${index}`, name: 'search_listings', arguments: input }),
  );
  const scene = await start(
    t,
    ...calls.map((call) => [call, createChunk({}, { finishReason: 'tool_calls' })]),
  );
  const inputs: unknown[] = [];
  for (const _ of writtenInputs) {
    const [call] = await Array.fromAsync(
      scene.client.streamChat({ ...question, tools: [searchTool] }),
    );
    inputs.push(call?.type === 'tool_call' && call.call.input);
  }
  assert.deepEqual(inputs, [{}, {}, '{"query":', 'Львів', [1]]);
});

test('A failure is retried before the first part, and ends the answer afterwards', async (t) => {
  const partRead = Promise.withResolvers<void>();
  const reset = async ({ socket }: ServerResponse) => {
    await partRead.promise;
    socket?.resetAndDestroy();
  };
  const scene = await startScene(t, [
    failure.loading,
    createStreamedResponse([createChunk({ content: 'Так' }), reset]),
  ]);
  const parts = scene.client.streamChat(question);
  assert.deepEqual((await parts.next()).value, { type: 'text', text: 'Так' });
  partRead.resolve();
  await expectFailure(parts.next(), 'MODEL_UNREACHABLE');
  assert.equal(scene.server.requests.length, 2);
  assert.deepEqual(scene.outcomes(), ['MODEL_UNAVAILABLE', 'MODEL_UNREACHABLE']);
});

test('A stream without a next part fails after the timeout of one part', async (t) => {
  const silentResponse = createStreamedResponse([
    createChunk({ content: 'Т' }),
    () => new Promise(() => {}),
  ]);
  const scene = await startScene(t, [silentResponse], { timeoutMs: 200 });
  const parts = scene.client.streamChat(question);
  await parts.next();
  const { message } = await expectFailure(parts.next(), 'MODEL_TIMEOUT');
  assert.match(message, /in the middle of its answer/);
});

test('The time of the reader does not count against the timeout of one part', async (t) => {
  const scene = await startScene(
    t,
    [createStreamedResponse([createChunk({ content: 'Т' }), () => sleep(300), stopChunk])],
    { timeoutMs: 200 },
  );
  const parts = scene.client.streamChat(question);
  await parts.next();
  await sleep(400);
  assert.equal((await parts.next()).value?.type, 'end');
});

test('A reader that leaves aborts the request', async (t) => {
  const connectionClosed = Promise.withResolvers<void>();
  const scene = await start(t, [
    createChunk({ content: 'Т' }),
    (response) =>
      new Promise<void>((resolve) => {
        response.on('close', () => {
          connectionClosed.resolve();
          resolve();
        });
      }),
  ]);
  for await (const part of scene.client.streamChat(question)) {
    assert.equal(part.type, 'text');
    break;
  }
  await connectionClosed.promise;
  assert.deepEqual(scene.outcomes(), ['MODEL_ABORTED']);

  const controller = new AbortController();
  const parts = scene.client.streamChat({ ...question, signal: controller.signal });
  await parts.next();
  const next = parts.next();
  controller.abort();
  await expectFailure(next, 'MODEL_ABORTED');
});

test('An incomplete or missing answer is an error', async (t) => {
  const scene = await start(t, [createChunk({ content: 'Т' })], []);
  const truncatedStream = scene.client.streamChat(question);
  await truncatedStream.next();
  await expectFailure(truncatedStream.next(), 'MODEL_INVALID_OUTPUT');
  const emptyStream = scene.client.streamChat(question);
  await expectFailure(emptyStream.next(), 'MODEL_INVALID_OUTPUT');
  scene.server.play({ body: '<html>proxy</html>' });
  const pageStream = scene.client.streamChat(question);
  await expectFailure(pageStream.next(), 'MODEL_INVALID_OUTPUT');
});

test('A truncated answer is marked, and a filtered answer is an error', async (t) => {
  const scene = await start(
    t,
    [createChunk({ content: 'Довго' }), createChunk({}, { finishReason: 'length' })],
    [createChunk({ content: 'Н' }), createChunk({}, { finishReason: 'content_filter' })],
  );
  const parts = await Array.fromAsync(scene.client.streamChat(question));
  const end = parts.at(-1);
  assert.equal(end?.type === 'end' && end.reason, 'length');
  await expectFailure(Array.fromAsync(scene.client.streamChat(question)), 'MODEL_REFUSED');
});
