import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { suite, test } from 'node:test';
import fc from 'fast-check';
import type { TokenCounts } from '../src/errors.ts';
import { MODEL_ERRORS, type ModelErrorCode } from '../src/index.ts';
import { createStatusError } from '../src/server-error.ts';
import { createChunk, createStreamedResponse } from '../src/testing.ts';
import { API_KEY, ask, expectFailure, startScene } from './support.ts';

/** Error responses of real servers. */
const ERRORS: {
  name: string;
  status: number;
  body: object;
  code: ModelErrorCode;
  tokens?: TokenCounts;
}[] = JSON.parse(readFileSync(new URL('server-errors.json', import.meta.url), 'utf8'));

suite('described errors', () => {
  for (const { name, status, body, code, tokens } of ERRORS) {
    test(`The error ${name} is ${code}`, async (t) => {
      const { client, server, events } = await startScene(t, [{ status, body }]);
      const error = await expectFailure(ask(client), code);
      assert.deepEqual([error.status, error.tokens], [status, tokens]);
      const { retriedInCall, infrastructure } = MODEL_ERRORS[code];
      assert.equal(server.requests.length, retriedInCall ? 3 : 1);
      assert.equal(error.outage !== undefined, infrastructure || code === 'MODEL_CONTEXT_FULL');
      for (const { outcome, reason } of events) {
        assert.deepEqual([outcome, reason], [code, error.message]);
      }
    });
  }
});

suite('errors with only a status', () => {
  const request = 'POST /v1/chat/completions';
  const variables = { baseUrl: 'MODEL_BASE_URL', apiKey: 'MODEL_API_KEY' };
  const getMessage = (body: string) =>
    createStatusError({ request, variables, status: 500, body }).message;

  test('An error with only a status is retryable for 408, 409, 425, 429 and 5xx', () => {
    fc.assert(
      fc.property(fc.integer({ min: 300, max: 599 }), (status) => {
        const error = createStatusError({ request, variables, status, body: '' });
        const isRetryable = status >= 500 || [408, 409, 425, 429].includes(status);
        assert.deepEqual([error.retryable, error.status], [isRetryable, status]);
      }),
    );
  });

  const bodies: [body: string, quoted: string][] = [
    ['{"error":{"code":503,"message":"Loading model"}}', ': Loading model'],
    ['{"error":"model is required"}', ': model is required'],
    ['{"object":"error","message":"too long","code":400}', ': too long'],
    ['{"detail":"Not Found"}', ': Not Found'],
    ['<html><body>secret stack</body></html>', ': an HTML page instead of JSON'],
    ['upstream\n  connect error', ': upstream connect error'],
    ...['', '{"input":"private text"}', '["x"]', '{"error":', '{}'].map(
      (body): [string, string] => [body, ''],
    ),
  ];
  test('An error quotes its body in known formats', () => {
    for (const [body, quoted] of bodies) {
      assert.equal(
        getMessage(body),
        `The model server responded with status 500 to ${request}${quoted}.`,
      );
    }
    assert.ok(getMessage(JSON.stringify({ error: 'long '.repeat(10_000) })).length < 400);
  });
});

const question = {
  operation: 'chat',
  system: 'Help to find a flat.',
  messages: [{ role: 'user' as const, content: 'Двокімнатна у Львові, біля парку?' }],
};

/** Errors that end a stream after status 200. */
const STREAMED_ERRORS: [error: object | string, code: ModelErrorCode, quoted: string][] = [
  [{ code: 500, message: 'Compute error.' }, 'MODEL_UNAVAILABLE', 'Compute error.'],
  [
    { code: 500, message: 'Context size has been exceeded.' },
    'MODEL_CONTEXT_FULL',
    'Context size has been exceeded.',
  ],
  [{ code: 400, message: 'bad grammar' }, 'MODEL_REJECTED', 'bad grammar.'],
  [{ type: 'server_error', message: 'it failed' }, 'MODEL_UNAVAILABLE', 'it failed.'],
  [
    { type: 'tokens', code: 'rate_limit_exceeded', message: 'Rate limit reached' },
    'MODEL_RATE_LIMITED',
    'Rate limit reached.',
  ],
  [
    { code: 'context_length_exceeded', type: 'invalid_request_error', message: 'too long' },
    'MODEL_INPUT_TOO_LARGE',
    'too long.',
  ],
  [
    {
      type: 'invalid_request_error',
      message: `bad ${API_KEY} in "Двокімнатна у Львові, біля парку?"`,
    },
    'MODEL_REJECTED',
    'bad [key] in "[…]".',
  ],
  // Ollama sends an error as a string.
  ['an error was encountered', 'MODEL_UNAVAILABLE', 'an error was encountered.'],
];

const COMPUTE_ERROR = { error: { code: 500, message: 'Compute error.' } };
/** Creates a stream that ends with an event after one part. */
const createFailingStream = (body: object) =>
  createStreamedResponse([createChunk({ content: 'Так' }), body]);

suite('errors in a stream', () => {
  for (const [error, code, quoted] of STREAMED_ERRORS) {
    test(`An error in a stream is ${code}: ${JSON.stringify(error)}`, async (t) => {
      const { client, events } = await startScene(t, [createFailingStream({ error })]);
      const parts = client.streamChat(question);
      assert.deepEqual((await parts.next()).value, { type: 'text', text: 'Так' });
      const { message } = await expectFailure(parts.next(), code);
      assert.equal(message, `The model server ended its answer with an error: ${quoted}`);
      assert.deepEqual(
        events.map(({ outcome, reason }) => [outcome, reason]),
        [[code, message]],
      );
    });
  }

  test('An error at the start of a stream is retried if it is retryable', async (t) => {
    const { client, server } = await startScene(t, [
      createStreamedResponse([COMPUTE_ERROR]),
      createStreamedResponse([
        createChunk({ content: 'Так' }),
        createChunk({}, { finishReason: 'stop' }),
      ]),
    ]);
    const parts = client.streamChat(question);
    assert.deepEqual((await parts.next()).value, { type: 'text', text: 'Так' });
    assert.equal(server.requests.length, 2);
    await parts.return();
  });

  test('Infrastructure errors within streams open the breaker', async (t) => {
    const { client, server } = await startScene(
      t,
      [createFailingStream({ error: { code: 400, message: 'bad grammar' } })],
      {
        breaker: { failures: 3, halfOpenAfterMs: 60_000 },
      },
    );
    const startChat = async () => {
      for await (const part of client.streamChat(question)) void part;
    };
    for (let index = 0; index < 4; index += 1) await expectFailure(startChat(), 'MODEL_REJECTED');
    assert.equal(client.breaker.state, 'closed');
    server.play(createFailingStream(COMPUTE_ERROR));
    for (let index = 0; index < 2; index += 1)
      await expectFailure(startChat(), 'MODEL_UNAVAILABLE');
    server.play(createFailingStream(createChunk({}, { finishReason: 'stop' })));
    await startChat();
    server.play(createFailingStream(COMPUTE_ERROR));
    for (let index = 0; index < 3; index += 1) {
      assert.equal(client.breaker.state, 'closed', 'an answer that came to its end is a success');
      await expectFailure(startChat(), 'MODEL_UNAVAILABLE');
    }
    assert.equal(client.breaker.state, 'open');
    await expectFailure(startChat(), 'MODEL_BREAKER_OPEN');
  });
});

suite('quotes', () => {
  const SENT = 'Квартира у Львові, 52 000 $';
  const quotes: [name: string, original: string, quoted: string][] = [
    ['another key', 'Incorrect API key: sk-proj-abcdefgh12', 'Incorrect API key: [key].'],
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
  for (const [name, original, quoted] of quotes) {
    test(`A quote contains no secret: ${name}`, async (t) => {
      const { client } = await startScene(t, [
        { status: 500, body: { error: { message: original } } },
      ]);
      const { message } = await expectFailure(ask(client), 'MODEL_UNAVAILABLE');
      assert.equal(
        message,
        `The model server responded with status 500 to POST /v1/chat/completions: ${quoted}`,
      );
    });
  }

  test('A quote contains no embedded text', async (t) => {
    const body = { error: { message: `cannot embed "${SENT}"` } };
    const { client } = await startScene(t, [{ status: 400, body }]);
    const { message } = await expectFailure(client.embed([SENT]), 'MODEL_REJECTED');
    assert.match(message, /: cannot embed "\[…\]"\.$/);
  });
});
