import type { EmbeddingModelV4 } from '@ai-sdk/provider';
import { embedMany } from 'ai';
import { checkVectors } from './check-vectors.ts';
import type { Exchanger } from './exchange.ts';
import type { TextLimit } from './text-limit.ts';
import type { ModelCallEvent } from './call-event.ts';
import type { CallPolicy } from './resilience/call-policy.ts';
import { createUsage, readTokens, type Usage } from './usage.ts';

/** Embeddings, in the order of their texts. */
export type EmbedResult = {
  vectors: number[][];
  /** The configured name of the model. */
  model: string;
  usage: Usage;
};

/** What a caller may say beside the texts. */
export type EmbedOptions = {
  signal?: AbortSignal | undefined;
  /** Told of each request that is made, beside the client's own observer. */
  observe?: ((event: ModelCallEvent) => void) | undefined;
};

/** What embedding needs. */
export type EmbedDeps = {
  embedding: EmbeddingModelV4;
  /** The width every vector must have. */
  dimensions: number;
  /** How long texts may be for this model, as far as it has said. */
  textLimit: TextLimit;
  call: CallPolicy;
  exchange: Exchanger;
};

/** How many texts one request has: servers differ in how many they take, and this is below all limits that are known. */
export const MAX_TEXTS_PER_REQUEST = 64;

/**
 * Embeds texts, `MAX_TEXTS_PER_REQUEST` at a time, one request after another. Each request has its own
 * attempts and deadline. Texts that are too long for the model are shortened: their beginning says most.
 *
 * @throws ModelError MODEL_INVALID_OUTPUT when a vector is missing, not finite, zero or of another
 *   width; and every other code of a request.
 */
export async function embed(
  { embedding, dimensions, textLimit, call, exchange }: EmbedDeps,
  texts: readonly string[],
  { signal, observe }: EmbedOptions,
): Promise<EmbedResult> {
  const usage = createUsage();
  const vectors: number[][] = [];

  const embedBatch = (values: string[]): Promise<number[][]> =>
    call(signal, (context) =>
      exchange({
        operation: 'embed',
        expected: `a list of one embedding for each text, with a number in every place. Check that MODEL_EMBEDDING (${embedding.modelId}) names an embedding model.`,
        context,
        send: (abortSignal) => embedMany({ model: embedding, values, maxRetries: 0, abortSignal }),
        tokens: (answer) => readTokens({ inputTokens: answer.usage.tokens }),
        read: ({ embeddings }) =>
          checkVectors(embeddings, { dimensions, model: embedding.modelId }),
        observe: (event) => {
          usage.add(event);
          observe?.(event);
        },
      }),
    );

  for (let start = 0; start < texts.length; start += MAX_TEXTS_PER_REQUEST) {
    let batch = textLimit.cut(texts.slice(start, start + MAX_TEXTS_PER_REQUEST));
    for (;;) {
      try {
        vectors.push(...(await embedBatch(batch)));
        break;
      } catch (error) {
        const shorter = textLimit.shorten(batch, error);
        if (shorter === undefined) throw error;
        batch = shorter;
      }
    }
  }
  return { vectors, model: embedding.modelId, usage: usage.total() };
}
