import type { Answer, ReceivedRequest } from './model-server.ts';

/** An answer about a payload. */
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

/** A chat completion as OpenAI's protocol has it. The tokens are what the server would have counted. */
export function completion(
  content: string,
  options: {
    model?: string;
    finishReason?: string;
    tokens?: { read: number; written: number };
  } = {},
): Answer {
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

/** Embeddings as OpenAI, Ollama, vLLM and llama.cpp all give them. */
export function embeddings(
  vectors: unknown[],
  options: { indexes?: number[]; tokens?: number } = {},
): Answer {
  const { indexes = vectors.map((_, index) => index), tokens = 8 } = options;
  return {
    body: {
      object: 'list',
      data: vectors.map((embedding, place) => ({
        object: 'embedding',
        embedding,
        index: indexes[place],
      })),
      model: 'embeddinggemma',
      usage: { prompt_tokens: tokens, total_tokens: tokens },
    },
  };
}

/** The texts that a request wants to have embedded; nothing where it wants something else. */
export function embeddedTexts({ path, body }: ReceivedRequest): string[] | undefined {
  if (!path.endsWith('/embeddings')) return undefined;
  // What asks is our own client.
  return (body as { input: string[] }).input;
}

/**
 * Answers as a model that reads the same out of every payload, and lists its models.
 * @param options.vectorOf What it embeds a text as; as long as `EMBEDDING_DIMENSIONS` is.
 */
export function constantAnswers(options: {
  listing?: object;
  model?: string;
  vectorOf: (text: string) => readonly number[];
}): (request: ReceivedRequest) => Answer {
  const { listing = LISTING, model = 'test', vectorOf } = options;
  return (request) => {
    if (request.path.endsWith('/models')) return { body: { object: 'list', data: [] } };
    const texts = embeddedTexts(request);
    return texts === undefined
      ? completion(JSON.stringify(listing), { model })
      : embeddings(texts.map(vectorOf));
  };
}

/** Vectors that are all the same, of so many numbers. */
export function constantVector(dimensions: number): () => readonly number[] {
  const vector = Array.from({ length: dimensions }, (_, nth) => nth + 1);
  return () => vector;
}
