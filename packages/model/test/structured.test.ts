import assert from 'node:assert/strict';
import { inspect } from 'node:util';
import { suite, test, type TestContext } from 'node:test';
import { Type } from 'typebox';
import { defineCompletion, defineModelSchema } from '../src/index.ts';
import {
  API_KEY,
  ask,
  createChat,
  parseChatBody,
  expectFailure,
  failure,
  FLAT_JSON,
  FLAT,
  flatCompletion,
  look,
  startScene,
} from './support.ts';

suite('the request', () => {
  test('A request has the schema, the data as one JSON text, and the key in its header only', async (t) => {
    const { client, server, events } = await startScene(t, [createChat(FLAT_JSON)]);
    assert.deepEqual(await ask(client), {
      value: FLAT,
      model: 'test',
      usage: { calls: 1, inputTokens: 26, outputTokens: 9 },
    });
    const [event] = events;
    assert.deepEqual([event?.operation, event?.outcome], ['extract', 'ok']);
    assert.ok((event?.durationMs ?? 0) > 0);
    const [request] = server.requests;
    assert.equal(request?.path, '/v1/chat/completions');
    assert.equal(request?.headers.authorization, `Bearer ${API_KEY}`);
    const body = parseChatBody(request);
    assert.equal(body.model, 'qwen3:4b');
    assert.deepEqual(body.response_format, {
      type: 'json_schema',
      json_schema: { name: 'flat', strict: true, schema: flatCompletion.sentSchema },
    });
    assert.equal(body.max_tokens, 200);
    const [system, user] = body.messages;
    assert.equal(body.messages.length, 2);
    assert.equal(system?.role, 'system');
    assert.match(String(system?.content), /^Read the facts of the flat\./);
    assert.ok(String(system?.content).includes(JSON.stringify(flatCompletion.sentSchema)));
    const content = '{"description":"Квартира у Львові, 52 000 $"}';
    assert.deepEqual(user, { role: 'user', content });
    assert.ok(!JSON.stringify(body).includes('sk-test'));
  });

  test('Images are sent to the vision model, by default the chat model', async (t) => {
    for (const vision of ['qwen3-vl', undefined]) {
      const { client, server } = await startScene(t, [createChat(FLAT_JSON)], { vision });
      await look(client);
      const body = parseChatBody(server.requests[0]);
      assert.equal(body.model, vision ?? 'qwen3:4b');
      assert.deepEqual(body.messages[1]?.content, [
        { type: 'text', text: '{"hint":"kitchen"}' },
        { type: 'image_url', image_url: { url: 'data:image/jpeg;base64,/9j/' } },
      ]);
    }
    const { client, server } = await startScene(t, [createChat(FLAT_JSON)], { vision: false });
    await expectFailure(look(client), 'MODEL_UNSUPPORTED');
    assert.equal(server.requests.length, 0);
  });
});

suite('the repair', () => {
  test('A repair sends the answer and its problems back', async (t) => {
    const wrongCompletion = '{"city":"Львів","price":"52 000"}';
    const { client, server, outcomes } = await startScene(t, [
      createChat(wrongCompletion),
      createChat(FLAT_JSON),
    ]);
    const result = await ask(client);
    assert.deepEqual(result.value, FLAT);
    assert.deepEqual(result.usage, { calls: 2, inputTokens: 52, outputTokens: 18 });
    assert.deepEqual(outcomes(), ['MODEL_INVALID_OUTPUT', 'ok']);
    const [, , answer, problems] = parseChatBody(server.requests[1]).messages;
    assert.deepEqual(answer, { role: 'assistant', content: wrongCompletion });
    assert.match(String(problems?.content), /^- \/price must be number$/m);
  });

  // Some servers answer 200 but ignore the response format: vllm #53975, llama.cpp #19051.
  const unformattedAnswers = ['The flat is in Lviv.', '{"answer": 42}', '', `Here: ${FLAT_JSON}`];
  for (const answer of unformattedAnswers) {
    test(`A repair is tried once: ${answer || '(empty)'}`, async (t) => {
      const { client, server } = await startScene(t, [createChat(answer)]);
      await expectFailure(ask(client), 'MODEL_INVALID_OUTPUT');
      assert.equal(server.requests.length, 2);
    });
  }

  test('A repair has separate attempts and continues after a failure of the server', async (t) => {
    const nonsense = createChat('nonsense');
    const script = [failure.crash, nonsense, failure.crash, createChat(FLAT_JSON)];
    const { client, server } = await startScene(t, script);
    assert.equal((await ask(client)).usage.calls, 4);
    server.play(nonsense, failure.crash);
    await expectFailure(ask(client), 'MODEL_UNAVAILABLE');
    assert.equal(server.requests.length, 4 + 4, 'at most one request more than attempts');
  });

  test('The error after a repair does not contain the answer', async (t) => {
    const { client } = await startScene(t, [createChat('{"city":5,"note":"call +380 00 000"}')]);
    const error = await expectFailure(ask(client), 'MODEL_INVALID_OUTPUT');
    assert.match(error.message, /\/city must be string/);
    assert.ok(!inspect(error, { showHidden: true, depth: 9 }).includes('+380'));
  });
});

suite('an unusable answer', () => {
  test('A truncated answer is an error even if it parses', async (t) => {
    const { client, outcomes } = await startScene(t, [createChat(FLAT_JSON, 'length')]);
    await expectFailure(ask(client), 'MODEL_TRUNCATED');
    assert.deepEqual(outcomes(), ['MODEL_TRUNCATED']);
  });

  const unreadableResponses: [name: string, body: unknown, pattern: RegExp][] = [
    ['garbage', '{"choices": [', /not JSON.*MODEL_BASE_URL/],
    ['a page', '<!doctype html><title>Open WebUI</title>', /not JSON.*MODEL_BASE_URL/],
    ['no choices', { id: 'x', choices: [] }, /not a chat completion.*MODEL_CHAT/],
    ['another object', { hello: 'world' }, /not a chat completion.*MODEL_CHAT/],
    ['an error with status 200', { error: { message: 'no such route' } }, /says: no such route/],
  ];
  for (const [name, body, pattern] of unreadableResponses) {
    test(`An unusable answer is rejected without a repair: ${name}`, async (t) => {
      const { client, server } = await startScene(t, [{ body }]);
      const error = await expectFailure(ask(client), 'MODEL_INVALID_OUTPUT');
      assert.match(error.message, pattern);
      assert.equal(server.requests.length, 1);
    });
  }
});

suite('rejected response format', () => {
  const messages = ['This response_format type is unavailable now', 'json_schema is not supported'];
  const rejections = messages.map((message) => ({ status: 400, body: { error: { message } } }));
  for (const rejection of rejections) {
    test(`Later requests omit a rejected response format: ${rejection.body.error.message}`, async (t) => {
      const { client, server } = await startScene(t, [rejection, createChat(FLAT_JSON)]);
      for (const _ of [1, 2]) assert.deepEqual((await ask(client)).value, FLAT);
      const bodies = server.requests.map(parseChatBody);
      const formats = bodies.map((sentBody) => sentBody.response_format !== undefined);
      assert.deepEqual(formats, [true, false, false]);
      assert.match(String(bodies[1]?.messages[0]?.content), /JSON Schema/);
    });
  }
});

suite('validation of answers', () => {
  const schema = Type.Object({
    city: Type.Union([Type.String(), Type.Null()]),
    rooms: Type.Integer({ minimum: 1 }),
    contact: Type.Object({ phones: Type.Array(Type.Object({ number: Type.String() })) }),
  });
  const listing = defineCompletion({ schemaName: 'listing', schema, maxOutputTokens: 200 });
  const VALID = { city: null, rooms: 2, contact: { phones: [{ number: '+380 00 000 00 00' }] } };

  async function read(t: TestContext, answer: string) {
    const { client } = await startScene(t, [createChat(answer)]);
    const question = { operation: 'extract', system: 'Read.', data: {} };
    return (await client.generateObject({ ...question, ...listing })).value;
  }

  test('An answer is read without its unknown keys, at every depth', async (t) => {
    const contact = { phones: [{ ...VALID.contact.phones[0], kind: 'mobile' }], hours: '9–18' };
    const answer = { ...VALID, extra: 1, contact, ['__proto__']: { admin: true } };
    const value = await read(t, JSON.stringify(answer));
    assert.deepEqual(value, VALID);
    assert.equal('admin' in value, false);
  });

  test('Values are not converted, and an error names at most eight problems', async (t) => {
    const getErrorMessage = async (answer: unknown) =>
      (await expectFailure(read(t, JSON.stringify(answer)), 'MODEL_INVALID_OUTPUT')).message;
    assert.match(await getErrorMessage({ ...VALID, rooms: '2' }), /\/rooms must be integer/);
    for (const answer of [[], null, 'text', 5]) {
      assert.match(await getErrorMessage(answer), /the answer must be object/);
    }
    const phones = Array.from({ length: 40 }, () => ({ number: 5 }));
    const message = await getErrorMessage({ ...VALID, contact: { phones } });
    assert.equal(message.match(/must be/g)?.length, 8);
  });

  test('The JSON of an answer may follow reasoning or stand in a fence', async (t) => {
    const json = JSON.stringify({ ...VALID, city: '</think> ```' });
    for (const answer of [
      `\uFEFF\n ${json}\n`,
      `\`\`\`json\n${json}\n\`\`\``,
      `\`\`\`JSON  \n${json}\n  \`\`\``,
      `<think>{"a":2}</think>${json}`,
      `<think>hm</think>\n\`\`\`json\n${json}\n\`\`\`\n`,
    ]) {
      assert.equal((await read(t, answer)).rooms, 2, answer);
    }
  });

  test('JSON within prose is not read, and invalid JSON is not corrected', async (t) => {
    const json = JSON.stringify(VALID);
    for (const answer of [
      `Here it is: ${json}`,
      `${json} I hope this helps!`,
      `${json}\n${json}`,
      `<think>${json}`,
      json.slice(0, -1),
      `\`\`\`json\n${json}`,
    ]) {
      const { message } = await expectFailure(read(t, answer), 'MODEL_INVALID_OUTPUT');
      assert.match(message, /not one JSON value/);
    }
  });
});

suite('a schema', () => {
  test('A schema is sent with all keys required, without bounds, and with its descriptions', () => {
    const schema = Type.Object({
      name: Type.String({ pattern: '^[^\\u0000]*$', minLength: 1, description: 'a name' }),
      kind: Type.Optional(Type.Enum(['a', 'b'], { description: 'which' })),
      size: Type.Union([Type.Integer({ minimum: 0 }), Type.Null()]),
      seen: Type.Optional(Type.Boolean()),
      tags: Type.Array(Type.String({ maxLength: 5 }), { maxItems: 3 }),
      places: Type.Optional(Type.Union([Type.Array(Type.String()), Type.String()])),
    });
    assert.deepEqual(defineModelSchema('thing', schema), {
      type: 'object',
      properties: {
        name: { type: 'string', description: 'a name' },
        kind: { type: ['string', 'null'], enum: ['a', 'b', null], description: 'which' },
        size: { type: ['integer', 'null'] },
        seen: { type: ['boolean', 'null'] },
        tags: { type: 'array', items: { type: 'string' } },
        places: { type: ['array', 'null'], items: { type: 'string' } },
      },
      required: ['name', 'kind', 'size', 'seen', 'tags', 'places'],
      additionalProperties: false,
    });
  });

  test('An unsupported schema is rejected with the name of its key', () => {
    const unsupportedSchemas = {
      literals: Type.Union([Type.Literal('a'), Type.Literal('b')]),
      literal: Type.Literal('a'),
      types: Type.Union([Type.String(), Type.Number(), Type.Null()]),
      record: Type.Record(Type.String(), Type.String()),
      any: Type.Unknown(),
    };
    for (const [key, schema] of Object.entries(unsupportedSchemas)) {
      assert.throws(
        () => defineModelSchema('thing', Type.Object({ [key]: schema })),
        (error) => error instanceof TypeError && error.message.startsWith(`thing.${key}: `),
      );
    }
  });
});
