import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import fc from 'fast-check';
import { statusError } from '../../src/transport/status-error.ts';

const variables = { baseUrl: 'MODEL_BASE_URL', apiKey: 'MODEL_API_KEY' };
const request = 'POST /v1/chat/completions';

suite('the code of a status', () => {
  test('is retryable for 408, 409, 425, 429 and 5xx only', () => {
    const retryable = new Set([408, 409, 425, 429]);
    fc.assert(
      fc.property(fc.integer({ min: 300, max: 599 }), (status) => {
        const error = statusError({ request, variables, status, body: '' });
        assert.equal(error.retryable, status >= 500 || retryable.has(status));
        assert.equal(error.status, status);
      }),
    );
  });
});

suite('the message', () => {
  const bodies: [form: string, body: string, said: string][] = [
    [
      "OpenAI's and llama.cpp's",
      '{"error":{"code":503,"message":"Loading model"}}',
      'Loading model',
    ],
    ["Ollama's own", '{"error":"model is required"}', 'model is required'],
    ["vLLM's", '{"object":"error","message":"too long","code":400}', 'too long'],
    ["FastAPI's", '{"detail":"Not Found"}', 'Not Found'],
    ["a proxy's page", '<html><body>secret stack</body></html>', 'an HTML page instead of JSON'],
    ["a proxy's text", 'upstream\n  connect error', 'upstream connect error'],
  ];
  for (const [form, body, said] of bodies) {
    test(`quotes ${form} form`, () => {
      const { message } = statusError({ request, variables, status: 500, body });
      assert.equal(message, `The model server answered 500 to ${request}: ${said}.`);
    });
  }

  for (const body of ['', '{"input":"somebody\'s text"}', '["x"]', '{"error":', 'null', '{}']) {
    test(`quotes nothing of ${body || 'an empty body'}`, () => {
      const { message } = statusError({ request, variables, status: 500, body });
      // A text without braces is a plain text, however short.
      const expected = body === 'null' ? ': null.' : '.';
      assert.equal(message, `The model server answered 500 to ${request}${expected}`);
    });
  }

  test('stays short', () => {
    const body = JSON.stringify({ error: { message: 'long '.repeat(10_000) } });
    assert.ok(statusError({ request, variables, status: 400, body }).message.length < 400);
  });
});
