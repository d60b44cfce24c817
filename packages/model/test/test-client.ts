import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import { Type } from 'typebox';
import { Parse } from 'typebox/value';
import {
  createModelClient,
  defineAnswer,
  ModelError,
  type ModelCallEvent,
  type ModelClient,
  type ModelClientOptions,
  type ModelErrorCode,
} from '../src/index.ts';
import {
  startScriptedServer,
  type RequestHandler,
  type ReceivedRequest,
  type ScriptedServer,
} from './scripted-server.ts';

/** A client before a scripted server, and what it reports. */
export type Scene = {
  client: ModelClient;
  server: ScriptedServer;
  events: ModelCallEvent[];
};

/** The key the test client sends; it must never come out again. */
export const API_KEY = 'sk-test-0123456789';

/** Starts a scripted server and a client with short waits before it. */
export async function startScene(
  t: TestContext,
  script: RequestHandler[],
  options: Partial<ModelClientOptions> = {},
): Promise<Scene> {
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
  return { client, server, events };
}

/** The schema that the tests ask for. */
export const Flat = Type.Object({
  city: Type.String(),
  price: Type.Union([Type.Number(), Type.Null()]),
});

/** The answer of that schema. */
export const flatAnswer = defineAnswer({ schemaName: 'flat', schema: Flat, maxOutputTokens: 200 });

/** A valid answer to it. */
export const FLAT = '{"city":"Львів","price":52000}';

/** Asks the client the question of the tests. */
export function ask(client: ModelClient, signal?: AbortSignal) {
  return client.generateObject({
    operation: 'extract',
    ...flatAnswer,
    system: 'Read the facts of the flat.',
    data: { description: 'Квартира у Львові, 52 000 $' },
    signal,
  });
}

const ChatBody = Type.Object({
  model: Type.String(),
  messages: Type.Array(Type.Object({ role: Type.String(), content: Type.Unknown() })),
  response_format: Type.Optional(Type.Unknown()),
  max_tokens: Type.Optional(Type.Unknown()),
  stream_options: Type.Optional(Type.Unknown()),
  tool_choice: Type.Optional(Type.Unknown()),
  tools: Type.Optional(Type.Array(Type.Unknown())),
});

/** Reads the body of a chat request. */
export function chatBody(request: ReceivedRequest | undefined) {
  return Parse(ChatBody, request?.body);
}

/** Waits for a call to fail with a code, and gives the error. */
export async function failsWith(call: Promise<unknown>, code: ModelErrorCode): Promise<ModelError> {
  const [result] = await Promise.allSettled([call]);
  assert.equal(result.status, 'rejected');
  const error: unknown = result.reason;
  assert.ok(error instanceof ModelError, `not a ModelError: ${String(error)}`);
  assert.equal(error.code, code, error.message);
  return error;
}
