import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { inspect } from 'node:util';
import type { Answer } from '../scripted-server.ts';
import { chat, failure } from '../server-answers.ts';
import { ask, chatBody, failsWith, FLAT, flatAnswer, startScene } from '../test-client.ts';

const VALUE = { city: 'Львів', price: 52_000 };

suite('a valid answer', () => {
  const forms: [name: string, answer: Answer, model: string][] = [
    ['Ollama', chat.ollama(FLAT), 'qwen3:4b'],
    ['vLLM', chat.vllm(FLAT), 'Qwen/Qwen3-4B'],
    ['llama.cpp', chat.llamaCpp(FLAT), 'qwen3-4b-q4_k_m.gguf'],
  ];
  for (const [name, answer, model] of forms) {
    test(`is read as ${name} gives it`, async (t) => {
      const { client, server, events } = await startScene(t, [answer]);
      assert.deepEqual(await ask(client), {
        value: VALUE,
        model,
        usage: { calls: 1, inputTokens: 26, outputTokens: 9 },
      });
      assert.equal(server.requests.length, 1);
      assert.deepEqual(
        events.map(({ operation, outcome }) => [operation, outcome]),
        [['extract', 'ok']],
      );
      assert.ok(events.every(({ durationMs }) => durationMs > 0));
    });
  }

  test('needs neither usage nor a model name', async (t) => {
    const { client } = await startScene(t, [chat.bare(FLAT)]);
    const { usage, model } = await ask(client);
    assert.deepEqual(usage, { calls: 1, inputTokens: null, outputTokens: null });
    assert.equal(model, 'qwen3:4b');
  });

  test('may be preceded by reasoning and stand in a fence', async (t) => {
    const wrapped = `<think>\nPrices are in {dollars}.\n</think>\n\n\`\`\`json\n${FLAT}\n\`\`\``;
    const { client, server } = await startScene(t, [chat.ollama(wrapped)]);
    assert.deepEqual((await ask(client)).value, VALUE);
    assert.equal(server.requests.length, 1);
  });

  test('loses the keys that the schema does not know', async (t) => {
    const answer = '{"city":"Львів","price":52000,"confidence":0.9,"__proto__":{"admin":true}}';
    const { client } = await startScene(t, [chat.vllm(answer)]);
    const { value } = await ask(client);
    assert.deepEqual(Object.keys(value), ['city', 'price']);
    assert.equal('admin' in value, false);
  });
});

suite('the request', () => {
  test('holds the schema, the data as one JSON text and the key in its header only', async (t) => {
    const { client, server } = await startScene(t, [chat.ollama(FLAT)]);
    await ask(client);
    const [request] = server.requests;
    assert.equal(request?.path, '/v1/chat/completions');
    assert.equal(request?.headers.authorization, 'Bearer sk-test-0123456789');
    const body = chatBody(request);
    assert.equal(body.model, 'qwen3:4b');
    assert.deepEqual(body.response_format, {
      type: 'json_schema',
      json_schema: {
        name: 'flat',
        strict: true,
        schema: {
          type: 'object',
          properties: { city: { type: 'string' }, price: { type: ['number', 'null'] } },
          required: ['city', 'price'],
          additionalProperties: false,
        },
      },
    });
    assert.equal(body.max_tokens, 200, 'the longest answer');
    const [system, user] = body.messages;
    assert.equal(body.messages.length, 2);
    assert.equal(system?.role, 'system');
    assert.match(String(system?.content), /^Read the facts of the flat\./);
    assert.ok(String(system?.content).includes(JSON.stringify(flatAnswer.sentSchema)));
    assert.deepEqual(user, {
      role: 'user',
      content: '{"description":"Квартира у Львові, 52 000 $"}',
    });
    assert.ok(!JSON.stringify(body).includes('sk-test'));
  });

  test('shows a picture to the vision model as a data address', async (t) => {
    const { client, server } = await startScene(t, [chat.llamaCpp(FLAT)], { vision: 'qwen3-vl' });
    await client.generateObject({
      operation: 'describe',
      ...flatAnswer,
      system: 'Look.',
      data: { hint: 'kitchen' },
      image: { bytes: Uint8Array.of(0xff, 0xd8, 0xff), mediaType: 'image/jpeg' },
    });
    const body = chatBody(server.requests[0]);
    assert.equal(body.model, 'qwen3-vl');
    assert.deepEqual(body.messages[1]?.content, [
      { type: 'text', text: '{"hint":"kitchen"}' },
      { type: 'image_url', image_url: { url: 'data:image/jpeg;base64,/9j/' } },
    ]);
  });

  test('goes to the chat model when no vision model is named', async (t) => {
    const { client, server } = await startScene(t, [chat.llamaCpp(FLAT)]);
    const image = { bytes: Uint8Array.of(1), mediaType: 'image/png' };
    await client.generateObject({
      operation: 'describe',
      ...flatAnswer,
      system: 'Look.',
      data: null,
      image,
    });
    assert.equal(chatBody(server.requests[0]).model, 'qwen3:4b');
  });
});

suite('the repair', () => {
  test('sends the answer and its errors back once', async (t) => {
    const wrong = '{"city":"Львів","price":"52 000"}';
    const { client, server, events } = await startScene(t, [chat.vllm(wrong), chat.vllm(FLAT)]);
    const result = await ask(client);
    assert.deepEqual(result.value, VALUE);
    assert.deepEqual(result.usage, { calls: 2, inputTokens: 52, outputTokens: 18 });
    assert.deepEqual(
      events.map(({ outcome }) => outcome),
      ['MODEL_INVALID_OUTPUT', 'ok'],
    );
    const { messages } = chatBody(server.requests[1]);
    assert.deepEqual(
      messages.map(({ role }) => role),
      ['system', 'user', 'assistant', 'user'],
    );
    assert.equal(messages[2]?.content, wrong);
    assert.match(String(messages[3]?.content), /^- \/price must be number$/m);
  });

  // Servers are known to answer 200 and ignore the response format: vllm #53975, llama.cpp #19051.
  const ignored = [
    'The flat is in Lviv.',
    '{"answer": 42}',
    '',
    '<think>unfinished',
    `Here: ${FLAT}`,
  ];
  for (const answer of ignored) {
    test(`is tried once and then given up: ${answer || '(empty)'}`, async (t) => {
      const { client, server } = await startScene(t, [chat.vllm(answer)]);
      const error = await failsWith(ask(client), 'MODEL_INVALID_OUTPUT');
      assert.equal(error.retryable, false);
      assert.equal(server.requests.length, 2);
    });
  }

  test('is not one of the attempts, and is continued when the server fails meanwhile', async (t) => {
    const { client, server } = await startScene(t, [
      failure.ollamaCrash,
      chat.ollama('nonsense'),
      failure.ollamaCrash,
      chat.ollama(FLAT),
    ]);
    assert.equal((await ask(client)).usage.calls, 4);
    assert.equal(server.requests.length, 4);
  });

  test('adds at most one request to the attempts', async (t) => {
    const { client, server } = await startScene(t, [chat.ollama('nonsense'), failure.ollamaCrash]);
    await failsWith(ask(client), 'MODEL_UNAVAILABLE');
    assert.equal(server.requests.length, 4);
  });

  test('keeps the answer out of the error', async (t) => {
    const { client } = await startScene(t, [chat.ollama('{"city":5,"note":"call +380 00 000"}')]);
    const error = await failsWith(ask(client), 'MODEL_INVALID_OUTPUT');
    assert.match(error.message, /\/city must be string/);
    assert.ok(!inspect(error, { showHidden: true, depth: 9 }).includes('+380'));
  });
});

suite('an answer that is no success', () => {
  test('cut off at its limit is an error even when it parses', async (t) => {
    const { client, server, events } = await startScene(t, [chat.llamaCpp(FLAT, 'length')]);
    await failsWith(ask(client), 'MODEL_TRUNCATED');
    assert.equal(server.requests.length, 1);
    assert.deepEqual(
      events.map(({ outcome }) => outcome),
      ['MODEL_TRUNCATED'],
    );
  });

  test('refused by a filter is not asked for again', async (t) => {
    const { client, server } = await startScene(t, [chat.vllm('', 'content_filter')]);
    await failsWith(ask(client), 'MODEL_REFUSED');
    assert.equal(server.requests.length, 1);
  });

  const unreadable: [name: string, body: unknown, said: RegExp][] = [
    ['garbage', '{"choices": [', /not JSON.*MODEL_BASE_URL/],
    ['a page', '<!doctype html><title>Open WebUI</title>', /not JSON.*MODEL_BASE_URL/],
    ['no choices', { id: 'x', choices: [] }, /not a chat completion.*MODEL_CHAT/],
    ['another object', { hello: 'world' }, /not a chat completion.*MODEL_CHAT/],
    ['an error with status 200', { error: { message: 'no such route' } }, /says: no such route/],
  ];
  for (const [name, body, said] of unreadable) {
    test(`is refused without a repair: ${name}`, async (t) => {
      const { client, server } = await startScene(t, [{ body }]);
      const error = await failsWith(ask(client), 'MODEL_INVALID_OUTPUT');
      assert.match(error.message, said);
      assert.equal(server.requests.length, 1);
    });
  }
});
