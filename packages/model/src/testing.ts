import type { ServerResponse } from 'node:http';
import { openServer, type ReceivedRequest, type ScriptedResponse } from '@oselya/testing/server';
import { PROBE_PREFIX } from './probes.ts';

export type { ReceivedRequest, ScriptedResponse } from '@oselya/testing/server';
export { listModelSchemas } from './schema.ts';

type RequestHandler = Parameters<typeof openServer>[0];

/** Fake model server on a free loopback port. Its `url` is the value for `MODEL_BASE_URL`. */
export type ModelServer = Awaited<ReturnType<typeof startModelServer>>;

/**
 * Starts a fake model server.
 * @param options.handlesProbes Whether the handler also gets startup probes. By default, they are rejected.
 */
export async function startModelServer(handle: RequestHandler, { handlesProbes = false } = {}) {
  const { url, connections, close } = await openServer((request) =>
    !handlesProbes && request.text.includes(PROBE_PREFIX)
      ? { status: 400, body: {} }
      : handle(request),
  );
  return { url: `${url}/v1`, connections, close, [Symbol.asyncDispose]: close };
}

/** Valid completion for a listing extraction. */
export const LISTING = {
  is_listing: true,
  reason: null,
  language: 'uk',
  title: 'Квартира',
  summary: 'Квартира у Львові.',
  deal_type: 'sale' as const,
  property_type: 'apartment',
  price: 62_000,
  currency: 'USD',
  city: 'Львів',
  district: null,
  address: null,
  rooms: 2,
  area_total: 54,
  area_living: null,
  area_kitchen: null,
  floor: 3,
  floors_total: 5,
  contact_name: null,
  phones: [],
  features: [],
};

/** Creates a response with an OpenAI chat completion. */
export function createCompletion(
  content: string,
  options: {
    model?: string;
    finishReason?: string;
    tokens?: { read: number; written: number };
  } = {},
): ScriptedResponse {
  const { model = 'test', finishReason = 'stop', tokens } = options;
  return {
    body: {
      id: 'chatcmpl-1',
      object: 'chat.completion',
      created: 1_770_000_000,
      model,
      choices: [{ index: 0, finish_reason: finishReason, message: { role: 'assistant', content } }],
      ...(tokens && {
        usage: { prompt_tokens: tokens.read, completion_tokens: tokens.written },
      }),
    },
  };
}

/** Creates a response with embeddings in the format of OpenAI, Ollama, vLLM and llama.cpp. */
export function createEmbeddings(
  vectors: unknown[],
  options: { indexes?: number[]; tokens?: number } = {},
): ScriptedResponse {
  const { indexes = vectors.map((_, index) => index), tokens = 8 } = options;
  return {
    body: {
      object: 'list',
      data: vectors.map((embedding, index) => ({
        object: 'embedding',
        embedding,
        index: indexes[index],
      })),
      model: 'embeddinggemma',
      usage: { prompt_tokens: tokens, total_tokens: tokens },
    },
  };
}

/** Returns the texts of an embedding request, or undefined for other requests. */
export function extractEmbeddedTexts({ path, body }: ReceivedRequest): string[] | undefined {
  if (!path.endsWith('/embeddings')) return undefined;
  // The client under test sends an array of strings.
  return (body as { input: string[] }).input;
}

/**
 * Creates a handler that returns the same listing for all payloads, an empty list of models, and embeddings.
 * @param options.createVector Returns a text's embedding, with `EMBEDDING_DIMENSIONS` numbers.
 */
export function createConstantHandler(options: {
  listing?: object;
  model?: string;
  createVector: (text: string) => readonly number[];
}): (request: ReceivedRequest) => ScriptedResponse {
  const { listing = LISTING, model = 'test', createVector } = options;
  return (request) => {
    if (request.path.endsWith('/models')) return { body: { object: 'list', data: [] } };
    const texts = extractEmbeddedTexts(request);
    return texts === undefined
      ? createCompletion(JSON.stringify(listing), { model })
      : createEmbeddings(texts.map(createVector));
  };
}

/** Creates a function that returns the same vector for all texts. */
export function createConstantVector(dimensions: number): () => readonly number[] {
  const vector = Array.from({ length: dimensions }, (_, index) => index + 1);
  return () => vector;
}

/** Creates a chunk of an OpenAI chat completion stream. */
export function createChunk(
  delta: object,
  options: { finishReason?: string | null; model?: string; usage?: object } = {},
): object {
  const { finishReason = null, model = 'test', usage } = options;
  return {
    id: 'chatcmpl-1',
    object: 'chat.completion.chunk',
    created: 1_770_000_000,
    model,
    choices: [{ index: 0, delta, finish_reason: finishReason }],
    ...(usage && { usage }),
  };
}

/** Creates a chunk with a tool call. */
export function createToolCallChunk(call: { id: string; name: string; arguments: string }): object {
  const { id, ...functionCall } = call;
  return createChunk({ tool_calls: [{ index: 0, id, type: 'function', function: functionCall }] });
}

/** Writes an event to a stream. */
export function writeEvent(response: ServerResponse, data: object | '[DONE]'): void {
  response.write(`data: ${data === '[DONE]' ? data : JSON.stringify(data)}\n\n`);
}

/**
 * Creates a streamed response.
 * @param chunks Chunks in their order, without the final `[DONE]`. A function can wait or close the connection.
 */
export function createStreamedResponse(
  chunks: readonly (object | ((response: ServerResponse) => Promise<void> | void))[],
): ScriptedResponse {
  return {
    write(response) {
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      void (async () => {
        for (const part of chunks) {
          if (typeof part === 'function') await part(response);
          else writeEvent(response, part);
          if (response.destroyed) return;
        }
        writeEvent(response, '[DONE]');
        response.end();
      })();
    },
  };
}
