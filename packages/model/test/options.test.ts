import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { createModelClient, type ModelClientOptions } from '../src/index.ts';

const MOCK: ModelClientOptions = { mode: 'mock', timeoutMs: 1_000, embeddingDimensions: 8 };
const SERVER: ModelClientOptions = {
  ...MOCK,
  mode: 'openai',
  baseUrl: 'http://models.example/v1',
  chat: 'qwen3',
  embedding: 'embeddinggemma',
};

function refuses(options: ModelClientOptions, message: RegExp): void {
  assert.throws(() => createModelClient(options), { code: 'MODEL_MISCONFIGURED', message });
}

suite('the openai mode', () => {
  test('starts with an address and models, with or without a key', async () => {
    for (const apiKey of [undefined, '', 'sk-test']) {
      await createModelClient({ ...SERVER, apiKey }).close();
    }
  });

  test('names everything that is missing at once', () => {
    refuses(
      { ...MOCK, mode: 'openai', chat: '' },
      /needs MODEL_BASE_URL, MODEL_CHAT, MODEL_EMBEDDING\. Set them/,
    );
    refuses({ ...SERVER, embedding: undefined }, /needs MODEL_EMBEDDING\. Set it/);
  });

  const addresses = [
    'models.example/v1',
    'ftp://models.example/v1',
    'http://',
    'http://user:hidden@models.example/v1',
    'http://models.example/v1?key=hidden',
    'http://models.example/v1#hidden',
  ];
  for (const baseUrl of addresses) {
    test(`refuses the address ${baseUrl} without repeating it`, () => {
      refuses({ ...SERVER, baseUrl }, /^MODEL_BASE_URL must (?!.*hidden)/);
      refuses(
        { ...SERVER, embeddingBaseUrl: baseUrl },
        /^MODEL_EMBEDDING_BASE_URL must (?!.*hidden)/,
      );
    });
  }

  for (const apiKey of ['hidden\n', 'hid den', 'hidden\u2026']) {
    test(`refuses the key ${JSON.stringify(apiKey)} without repeating it`, () => {
      refuses({ ...SERVER, apiKey }, /^MODEL_API_KEY must (?!.*hid)/);
      refuses({ ...SERVER, embeddingApiKey: apiKey }, /^MODEL_EMBEDDING_API_KEY must (?!.*hid)/);
    });
  }
});

suite('numbers', () => {
  const bad: [options: Partial<ModelClientOptions>, name: RegExp][] = [
    [{ timeoutMs: 0 }, /^MODEL_TIMEOUT_MS must be a whole number from 1 to/],
    [{ timeoutMs: Number.NaN }, /^MODEL_TIMEOUT_MS/],
    // A timer of 2^31 ms would fire at once.
    [{ timeoutMs: 2 ** 31 }, /^MODEL_TIMEOUT_MS/],
    [{ embeddingDimensions: 0 }, /^EMBEDDING_DIMENSIONS/],
    [{ embeddingDimensions: 1.5 }, /^EMBEDDING_DIMENSIONS/],
    [{ retry: { attempts: 0 } }, /^retry\.attempts/],
    [{ retry: { initialDelayMs: -1 } }, /^retry\.initialDelayMs/],
    [{ retry: { maxDelayMs: Infinity } }, /^retry\.maxDelayMs/],
    [{ breaker: { failures: 0 } }, /^breaker\.failures/],
    [{ breaker: { halfOpenAfterMs: -1 } }, /^breaker\.halfOpenAfterMs/],
  ];
  for (const [options, message] of bad) {
    test(`${JSON.stringify(options)} are refused`, () => refuses({ ...MOCK, ...options }, message));
  }
});
