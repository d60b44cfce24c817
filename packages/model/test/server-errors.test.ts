import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import type { TokenCounts } from '../src/errors.ts';
import { MODEL_ERRORS, type ModelErrorCode } from '../src/index.ts';
import { chunk, streamed } from '../src/testing.ts';
import { API_KEY, ask, failsWith, startScene } from './test-client.ts';

const llamaCpp = (code: number, message: string, type = 'server_error', more = {}) => ({
  error: { code, message, type, ...more },
});
const vllm = (message: string, code = 400, type = 'BadRequestError') => ({
  error: { message, type, param: null, code },
});
const oldVllm = (message: string) => ({
  object: 'error',
  message,
  type: 'BadRequestError',
  param: null,
  code: 400,
});
const ollama = (message: string, type = 'api_error') => ({
  error: { message, type, param: null, code: null },
});
const openai = (message: string, type: string, code: string | null = null) => ({
  error: { message, type, param: null, code },
});

/** What servers answer, in their own words. */
const ERRORS: [
  server: string,
  status: number,
  body: object,
  code: ModelErrorCode,
  tokens?: TokenCounts,
][] = [
  [
    'llama.cpp: an image for a model of text',
    500,
    llamaCpp(
      500,
      'image input is not supported - hint: if this is unexpected, you may need to provide the mmproj',
    ),
    'MODEL_UNSUPPORTED',
  ],
  [
    'llama.cpp: a model that does not embed',
    501,
    llamaCpp(
      501,
      'This server does not support embeddings. Start it with `--embeddings`',
      'not_supported_error',
    ),
    'MODEL_UNSUPPORTED',
  ],
  [
    'llama.cpp: multimodal data for a model of text',
    400,
    llamaCpp(
      400,
      'Multimodal data provided, but model does not support multimodal requests.',
      'invalid_request_error',
    ),
    'MODEL_UNSUPPORTED',
  ],
  [
    'llama.cpp: a text larger than the batch',
    500,
    llamaCpp(
      500,
      'input (1461 tokens) is too large to process. increase the physical batch size (current batch size: 512)',
    ),
    'MODEL_INPUT_TOO_LARGE',
    { given: 1461, limit: 512 },
  ],
  [
    'llama.cpp of before: a text larger than the batch',
    500,
    llamaCpp(500, 'input is too large to process. increase the physical batch size'),
    'MODEL_INPUT_TOO_LARGE',
    {},
  ],
  [
    'llama.cpp: a text larger than the context of one slot',
    400,
    llamaCpp(
      400,
      'request (9001 tokens) exceeds the available context size (8192 tokens), try increasing it',
      'exceed_context_size_error',
      { n_prompt_tokens: 9001, n_ctx: 8192 },
    ),
    'MODEL_INPUT_TOO_LARGE',
    { given: 9001, limit: 8192 },
  ],
  [
    'llama.cpp: an embedded text larger than the context',
    400,
    llamaCpp(
      400,
      'input (9001 tokens) is larger than the max context size (8192 tokens). skipping',
      'exceed_context_size_error',
    ),
    'MODEL_INPUT_TOO_LARGE',
    { given: 9001, limit: 8192 },
  ],
  [
    'llama.cpp: a context that its requests share is full',
    500,
    llamaCpp(500, 'Context size has been exceeded.'),
    'MODEL_CONTEXT_FULL',
  ],
  [
    'llama.cpp: a model that is loading',
    503,
    llamaCpp(503, 'Loading model', 'unavailable_error'),
    'MODEL_UNAVAILABLE',
  ],
  ['llama.cpp: a failure of its own', 500, llamaCpp(500, 'Compute error.'), 'MODEL_UNAVAILABLE'],
  [
    'Ollama: an image for a model of text',
    500,
    ollama('this model is missing data required for image input'),
    'MODEL_UNSUPPORTED',
  ],
  [
    'Ollama: an embedded text that is too long',
    400,
    ollama('the input length exceeds the context length', 'invalid_request_error'),
    'MODEL_INPUT_TOO_LARGE',
    {},
  ],
  [
    'Ollama: an embedded text that stays too long',
    500,
    ollama('input exceeds maximum context length and cannot be truncated further'),
    'MODEL_INPUT_TOO_LARGE',
    {},
  ],
  [
    'Ollama: a runner that crashed',
    500,
    ollama('llama runner process has terminated: exit status 2'),
    'MODEL_UNAVAILABLE',
  ],
  [
    'Ollama: a full queue',
    503,
    ollama('server busy, please try again. maximum pending requests exceeded'),
    'MODEL_UNAVAILABLE',
  ],
  [
    'Ollama: a model that is not there',
    404,
    ollama('model "x" not found, try pulling it first'),
    'MODEL_REJECTED',
  ],
  [
    'vLLM: an image for a model of text',
    400,
    vllm('Qwen/Qwen3-4B is not a multimodal model None'),
    'MODEL_UNSUPPORTED',
  ],
  [
    'vLLM: images that are switched off',
    400,
    vllm('At most 0 image(s) may be provided in one prompt.'),
    'MODEL_UNSUPPORTED',
  ],
  [
    'vLLM: an embedded text that is too long',
    400,
    oldVllm(
      "This model's maximum context length is 512 tokens. However, you requested 1451 tokens in the input for embedding generation. Please reduce the length of the input.",
    ),
    'MODEL_INPUT_TOO_LARGE',
    { given: 1451, limit: 512 },
  ],
  [
    'vLLM: a prompt that is too long',
    400,
    vllm(
      "This model's maximum context length is 8192 tokens. However, your request has 9000 input tokens. Please reduce the length of the input messages.",
    ),
    'MODEL_INPUT_TOO_LARGE',
    { given: 9000, limit: 8192 },
  ],
  [
    'vLLM: a prompt that its engine finds too long',
    400,
    oldVllm('The decoder prompt (length 9001) is longer than the maximum model length of 8192.'),
    'MODEL_INPUT_TOO_LARGE',
    { given: 9001, limit: 8192 },
  ],
  [
    'vLLM: an engine that died',
    500,
    vllm('EngineCore encountered an issue.', 500, 'InternalServerError'),
    'MODEL_UNAVAILABLE',
  ],
  [
    'OpenAI: a prompt that is too long',
    400,
    openai(
      "This model's maximum context length is 8192 tokens, however you requested 10000 tokens (10000 in your prompt; 0 for the completion). Please reduce your prompt; or completion length.",
      'invalid_request_error',
      'context_length_exceeded',
    ),
    'MODEL_INPUT_TOO_LARGE',
    { given: 10_000, limit: 8192 },
  ],
  [
    'OpenAI: an embedded text that is too long',
    400,
    openai("Invalid 'input[0]': maximum input length is 8192 tokens.", 'invalid_request_error'),
    'MODEL_INPUT_TOO_LARGE',
    { limit: 8192 },
  ],
  [
    'OpenAI: an image for a model of text',
    400,
    openai(
      'Invalid content type. image_url is only supported by certain models.',
      'invalid_request_error',
    ),
    'MODEL_UNSUPPORTED',
  ],
  [
    'OpenAI: a wrong parameter',
    400,
    openai("Unrecognized request argument supplied: 'x'", 'invalid_request_error'),
    'MODEL_REJECTED',
  ],
  [
    'OpenAI: a failure of its own',
    500,
    openai(
      'The server had an error while processing your request. Sorry about that!',
      'server_error',
    ),
    'MODEL_UNAVAILABLE',
  ],
  [
    'OpenAI: a limit',
    429,
    openai('Rate limit reached for x: Limit 10000 tokens', 'tokens', 'rate_limit_exceeded'),
    'MODEL_RATE_LIMITED',
  ],
  [
    'Text Embeddings Inference: a text that is too long',
    413,
    {
      message: 'Input validation error: `inputs` must have less than 512 tokens. Given: 1461',
      type: 'Validation',
    },
    'MODEL_INPUT_TOO_LARGE',
    { given: 1461, limit: 512 },
  ],
  [
    'LM Studio: a prompt that is too long',
    400,
    { error: 'Context size has been exceeded.' },
    'MODEL_INPUT_TOO_LARGE',
    {},
  ],
];

suite('what a server says of an error', () => {
  for (const [server, status, body, code, tokens] of ERRORS) {
    test(`${server} is ${code}`, async (t) => {
      const { client, server: scripted, events } = await startScene(t, [{ status, body }]);
      const error = await failsWith(ask(client), code);
      assert.deepEqual(error.tokens, tokens);
      assert.equal(error.status, status);
      const { retriedInCall, infrastructure } = MODEL_ERRORS[code];
      assert.equal(scripted.requests.length, retriedInCall ? 3 : 1);
      assert.equal(error.outage !== undefined, infrastructure || code === 'MODEL_CONTEXT_FULL');
      assert.deepEqual(
        events.map(({ outcome, reason }) => [outcome, reason]),
        events.map(() => [code, error.message]),
      );
    });
  }

  test('does not move the breaker where it is of the input, or of what it has to do at once', async (t) => {
    const bodies = ERRORS.filter(([, , , code]) => !MODEL_ERRORS[code].infrastructure);
    const { client } = await startScene(
      t,
      bodies.map(([, status, body]) => ({ status, body })),
      { breaker: { failures: 1 }, retry: { attempts: 1 } },
    );
    for (const [, , , code] of bodies) await failsWith(ask(client), code);
    assert.equal(client.breaker.state, 'closed');
  });
});

const question = {
  operation: 'chat',
  system: 'Help to find a flat.',
  messages: [{ role: 'user' as const, content: 'Двокімнатна у Львові, біля парку?' }],
};

/** The errors that a stream ends with, whose status went ahead as 200. */
const STREAMED: [server: string, body: object, code: ModelErrorCode, said: string][] = [
  ['llama.cpp', llamaCpp(500, 'Compute error.'), 'MODEL_UNAVAILABLE', 'Compute error.'],
  [
    'llama.cpp with a full context',
    llamaCpp(500, 'Context size has been exceeded.'),
    'MODEL_CONTEXT_FULL',
    'Context size has been exceeded.',
  ],
  [
    'vLLM',
    vllm('EngineCore encountered an issue', 500, 'InternalServerError'),
    'MODEL_UNAVAILABLE',
    'EngineCore encountered an issue.',
  ],
  ['vLLM of before', oldVllm('bad grammar'), 'MODEL_REJECTED', 'bad grammar.'],
  [
    'OpenAI',
    openai('The server had an error', 'server_error'),
    'MODEL_UNAVAILABLE',
    'The server had an error.',
  ],
  [
    'OpenAI with a limit',
    openai('Rate limit reached', 'tokens', 'rate_limit_exceeded'),
    'MODEL_RATE_LIMITED',
    'Rate limit reached.',
  ],
  [
    'OpenAI with a prompt that is too long',
    openai('too long', 'invalid_request_error', 'context_length_exceeded'),
    'MODEL_INPUT_TOO_LARGE',
    'too long.',
  ],
  [
    'Ollama',
    { error: 'an error was encountered' },
    'MODEL_UNAVAILABLE',
    'an error was encountered.',
  ],
  [
    'one that repeats the key and the question',
    openai(`bad ${API_KEY} in "Двокімнатна у Львові, біля парку?"`, 'invalid_request_error'),
    'MODEL_REJECTED',
    'bad [key] in "[…]".',
  ],
];

/** An answer that begins well and ends so. */
const ending = (body: object) => streamed([chunk({ content: 'Так' }), body]);

suite('an error inside of a stream', () => {
  for (const [server, body, code, said] of STREAMED) {
    test(`of ${server} is ${code}, and counted as such`, async (t) => {
      const { client, events } = await startScene(t, [streamed([chunk({ content: 'Так' }), body])]);
      const parts = client.streamChat(question);
      assert.deepEqual((await parts.next()).value, { type: 'text', text: 'Так' });
      const { message } = await failsWith(parts.next(), code);
      assert.equal(message, `The model server ended its answer with an error: ${said}`);
      assert.deepEqual(
        events.map(({ outcome, reason }) => [outcome, reason]),
        [[code, message]],
      );
    });
  }

  test('that comes first is tried again where that may help', async (t) => {
    const { client, server } = await startScene(t, [
      streamed([llamaCpp(500, 'Compute error.')]),
      streamed([chunk({ content: 'Так' }), chunk({}, { finishReason: 'stop' })]),
    ]);
    const parts = client.streamChat(question);
    assert.deepEqual((await parts.next()).value, { type: 'text', text: 'Так' });
    assert.equal(server.requests.length, 2);
    await parts.return();
  });

  test('opens the breaker where it is an outage, though each answer began well', async (t) => {
    const { client, server } = await startScene(t, [ending(vllm('bad grammar'))], {
      breaker: { failures: 3, halfOpenAfterMs: 60_000 },
    });
    const talk = async () => {
      for await (const part of client.streamChat(question)) void part;
    };
    for (let nth = 0; nth < 4; nth += 1) await failsWith(talk(), 'MODEL_REJECTED');
    assert.equal(client.breaker.state, 'closed');
    server.play(ending(llamaCpp(500, 'Compute error.')));
    for (let nth = 0; nth < 2; nth += 1) await failsWith(talk(), 'MODEL_UNAVAILABLE');
    server.play(ending(chunk({}, { finishReason: 'stop' })));
    await talk();
    server.play(ending(llamaCpp(500, 'Compute error.')));
    for (let nth = 0; nth < 3; nth += 1) {
      assert.equal(client.breaker.state, 'closed', 'an answer that came to its end is a success');
      await failsWith(talk(), 'MODEL_UNAVAILABLE');
    }
    assert.equal(client.breaker.state, 'open');
    await failsWith(talk(), 'MODEL_BREAKER_OPEN');
  });
});

suite('what is quoted of a server', () => {
  const SENT = 'Квартира у Львові, 52 000 $';
  const quotes: [name: string, said: string, quoted: string][] = [
    ['a key of its own', 'Incorrect API key: sk-proj-abcdefgh12', 'Incorrect API key: [key].'],
    [
      'a header',
      'bad header Authorization: Bearer abcdef0123456789',
      'bad header Authorization: Bearer [key].',
    ],
    ['a query', 'GET /x?key=abcdef0123 failed', 'GET /x?key=[key] failed.'],
    [
      'an address',
      'no route to redis://:pa55@cache:6379/0',
      'no route to redis://[credentials]@cache:6379/0.',
    ],
    ['the request', `cannot parse <${SENT}>`, 'cannot parse <[…]>.'],
    [
      'the request in its own JSON',
      `input: ${JSON.stringify(JSON.stringify({ description: SENT }))}`,
      'input: "{\\"description\\":\\[…]\\"}".',
    ],
  ];
  for (const [name, said, quoted] of quotes) {
    test(`holds nothing confidential: ${name}`, async (t) => {
      const { client } = await startScene(t, [{ status: 500, body: { error: { message: said } } }]);
      const { message } = await failsWith(ask(client), 'MODEL_UNAVAILABLE');
      assert.equal(
        message,
        `The model server answered 500 to POST /v1/chat/completions: ${quoted}`,
      );
    });
  }

  test('holds nothing of a text that was to be embedded', async (t) => {
    const body = { error: { message: `cannot embed "${SENT}"` } };
    const { client } = await startScene(t, [{ status: 400, body }]);
    const { message } = await failsWith(client.embed([SENT]), 'MODEL_REJECTED');
    assert.match(message, /: cannot embed "\[…\]"\.$/);
  });

  test('is short, however long the server speaks', async (t) => {
    const body = { error: { message: 'x y '.repeat(10_000) } };
    const { client } = await startScene(t, [{ status: 500, body }]);
    const { message } = await failsWith(ask(client), 'MODEL_UNAVAILABLE');
    assert.ok(message.length < 400, String(message.length));
  });
});
