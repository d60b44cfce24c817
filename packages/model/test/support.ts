import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import { Type } from 'typebox';
import { Parse } from 'typebox/value';
import {
  createModelClient,
  defineCompletion,
  ModelError,
  type ModelCallEvent,
  type ModelClient,
  type ModelClientOptions,
  type ModelErrorCode,
} from '../src/index.ts';
import {
  type ScriptedResponse,
  createCompletion,
  type ReceivedRequest,
  startModelServer,
} from '../src/testing.ts';

/** Response, or a function that creates it. */
export type ScriptEntry =
  | ScriptedResponse
  | ((request: ReceivedRequest) => ScriptedResponse | Promise<ScriptedResponse>);

/** Model server that plays a script. */
type ScriptedServer = {
  baseUrl: string;
  requests: ReceivedRequest[];
  /** Replaces the script. Each request gets the next entry, and the last entry repeats. */
  play(...script: ScriptEntry[]): void;
};

/** Starts a scripted server for one test. */
export async function startScriptedServer(
  t: TestContext,
  ...initialScript: ScriptEntry[]
): Promise<ScriptedServer> {
  const requests: ReceivedRequest[] = [];
  let script = initialScript;
  const server = await startModelServer((request) => {
    requests.push(request);
    const entry = (script.length > 1 ? script.shift() : script[0]) ?? 'reset';
    return typeof entry === 'function' ? entry(request) : entry;
  });
  t.after(server.close);
  return { baseUrl: server.url, requests, play: (...nextScript) => (script = nextScript) };
}

/** Key of the test client, which no output may contain. */
export const API_KEY = 'sk-test-0123456789';

/** Starts a scripted server, and a client with short delays. */
export async function startScene(
  t: TestContext,
  script: ScriptEntry[],
  options: Partial<ModelClientOptions> = {},
) {
  const server = await startScriptedServer(t, ...script);
  const events: ModelCallEvent[] = [];
  const client = createModelClient({
    mode: 'openai',
    baseUrl: server.baseUrl,
    apiKey: API_KEY,
    chat: 'qwen3:4b',
    embedding: 'embeddinggemma',
    timeoutMs: 20_000,
    embeddingDimensions: 3,
    observe: (event) => events.push(event),
    retry: { initialDelayMs: 1, maxDelayMs: 4 },
    ...options,
  });
  const outcomes = () => events.map(({ outcome }) => outcome);
  return { client, server, events, outcomes };
}

/** Completion that the tests request. */
export const flatCompletion = defineCompletion({
  schemaName: 'flat',
  schema: Type.Object({ city: Type.String(), price: Type.Union([Type.Number(), Type.Null()]) }),
  maxOutputTokens: 200,
});

/** Valid completion as JSON. */
export const FLAT_JSON = '{"city":"Львів","price":52000}';
/** Value of the valid completion. */
export const FLAT = { city: 'Львів', price: 52_000 };

export function ask(client: ModelClient, signal?: AbortSignal) {
  return client.generateObject({
    operation: 'extract',
    ...flatCompletion,
    system: 'Read the facts of the flat.',
    data: { description: 'Квартира у Львові, 52 000 $' },
    signal,
  });
}

export function look(client: ModelClient) {
  return client.generateObject({
    operation: 'describe',
    ...flatCompletion,
    system: 'Look.',
    data: { hint: 'kitchen' },
    image: { bytes: Uint8Array.of(0xff, 0xd8, 0xff), mediaType: 'image/jpeg' },
  });
}

const chatBodySchema = Type.Object({
  model: Type.String(),
  messages: Type.Array(Type.Object({ role: Type.String(), content: Type.Unknown() })),
  response_format: Type.Optional(Type.Unknown()),
  max_tokens: Type.Optional(Type.Unknown()),
  stream_options: Type.Optional(Type.Unknown()),
  tool_choice: Type.Optional(Type.Unknown()),
  tools: Type.Optional(Type.Array(Type.Unknown())),
});

export const parseChatBody = (request: ReceivedRequest | undefined) =>
  Parse(chatBodySchema, request?.body);

/** Waits for a call to fail with a code, and returns the error. */
export async function expectFailure(
  call: Promise<unknown>,
  code: ModelErrorCode,
): Promise<ModelError> {
  const [result] = await Promise.allSettled([call]);
  assert.equal(result.status, 'rejected');
  const error: unknown = result.reason;
  assert.ok(error instanceof ModelError, `not a ModelError: ${String(error)}`);
  assert.equal(error.code, code, error.message);
  return error;
}

/** Creates a chat completion with token counts. */
export const createChat = (content: string, finishReason = 'stop'): ScriptedResponse =>
  createCompletion(content, { finishReason, tokens: { read: 26, written: 9 } });

const error = (status: number, body: object | string): ScriptedResponse => ({ status, body });

/** Error responses of real servers. */
export const failure = {
  missingModel: error(404, { error: { message: 'model "x" not found, try pulling it first' } }),
  tooLong: error(400, {
    object: 'error',
    message: 'The decoder prompt (length 9001) is longer than the maximum model length of 8192.',
    code: 400,
  }),
  loading: error(503, {
    error: { code: 503, message: 'Loading model', type: 'unavailable_error' },
  }),
  crash: error(500, { error: { message: 'llama runner process has terminated' } }),
  contextFull: error(500, { error: { code: 500, message: 'Context size has been exceeded.' } }),
  htmlPage: error(502, '<html><head><title>502 Bad Gateway</title></head></html>'),
  tooMany: (headers: Record<string, string>): ScriptedResponse => ({
    status: 429,
    headers,
    body: { error: { message: 'Rate limit reached', code: 'rate_limit' } },
  }),
};
