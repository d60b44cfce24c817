import type { EmbeddingModelV4 } from '@ai-sdk/provider';
import { ModelError } from './errors.ts';
import { type Lane, sendRequest } from './request.ts';
import { createUsage, type Observer, readTokens, type Usage } from './usage.ts';

/** Vectors in the order of the texts, and the configured name of the model. */
export type EmbedResult = { vectors: number[][]; model: string; usage: Usage };

export type EmbedOptions = {
  signal?: AbortSignal | undefined;
  /** Called for each request, in addition to the client's observer. */
  observe?: Observer | undefined;
};

/** Maximum number of texts per request, which all servers accept: that of text-embeddings-inference takes 32. */
export const MAX_TEXTS_PER_REQUEST = 32;

/**
 * Embeds texts in batches of `MAX_TEXTS_PER_REQUEST`, one after another. Each batch has separate attempts and a
 * separate deadline. Truncates texts that are too long for the model.
 * @throws ModelError MODEL_INVALID_OUTPUT if a vector is missing, not finite, zero or of the wrong width, and all other
 *   codes of a request.
 */
export async function embed(
  lane: Lane<EmbeddingModelV4> & { dimensions: number; textLimit: TextLimit },
  texts: readonly string[],
  { signal, observe }: EmbedOptions,
): Promise<EmbedResult> {
  const { model, dimensions, textLimit } = lane;
  const usage = createUsage();
  const expectedResponse = `a list of one embedding for each text, with a number in every place. Check that MODEL_EMBEDDING (${model.modelId}) names an embedding model.`;

  const embedBatch = (values: string[]): Promise<number[][]> =>
    lane.retry(signal, (context) =>
      sendRequest(lane, context, {
        operation: 'embed',
        expectedResponse,
        send: (abortSignal) => model.doEmbed({ values, abortSignal }),
        tokens: (response) => readTokens(response.usage?.tokens),
        read(response) {
          const vectors = sortEmbeddings(response, values.length);
          const problem =
            vectors === undefined
              ? `The model server's answer is not ${expectedResponse}`
              : findProblem(vectors, dimensions, model.modelId);
          if (problem !== undefined) throw new ModelError('MODEL_INVALID_OUTPUT', problem);
          return vectors ?? [];
        },
        observe(event) {
          usage.add(event);
          observe?.(event);
        },
      }),
    );

  const vectors: number[][] = [];
  for (let offset = 0; offset < texts.length; offset += MAX_TEXTS_PER_REQUEST) {
    let batch = textLimit.truncate(texts.slice(offset, offset + MAX_TEXTS_PER_REQUEST));
    for (;;) {
      try {
        vectors.push(...(await embedBatch(batch)));
        break;
      } catch (error) {
        const shorterBatch = textLimit.shorten(batch, error);
        if (shorterBatch === undefined) throw error;
        batch = shorterBatch;
      }
    }
  }
  return { vectors, model: model.modelId, usage: usage.total() };
}

/**
 * Sorts embeddings into the order of their texts, by the `index` in the response, which `@ai-sdk/openai-compatible`
 * ignores. Returns undefined if the number of embeddings is wrong, or if an index is missing.
 */
function sortEmbeddings(
  { embeddings, response }: Awaited<ReturnType<EmbeddingModelV4['doEmbed']>>,
  count: number,
): number[][] | undefined {
  if (embeddings.length !== count) return undefined;
  const { data } = Object(response?.body) as { data?: { index?: unknown }[] };
  const indexes = data?.map(({ index }) => index) ?? [];
  if (indexes.every((index) => index === undefined)) return embeddings;
  const sortedEmbeddings = embeddings.map((_, index) => embeddings[indexes.indexOf(index)]);
  return sortedEmbeddings.every((vector) => vector !== undefined) ? sortedEmbeddings : undefined;
}

/** Smallest normal number in single precision (IEEE 754, binary32). Smaller numbers lose precision. */
const MIN_NORMAL_NUMBER = 2 ** -126;

/**
 * Describes the first vector that would corrupt search results. The check uses single precision like pgvector, which
 * stores numbers and adds their squares in single precision.
 */
function findProblem(vectors: number[][], dimensions: number, model: string): string | undefined {
  for (const vector of vectors) {
    const embedding = `MODEL_EMBEDDING (${model}) gave an embedding`;
    if (vector.length !== dimensions) {
      return `${embedding} of ${vector.length} numbers, but EMBEDDING_DIMENSIONS is ${dimensions}. Set EMBEDDING_DIMENSIONS to the width of the model, or choose a different model.`;
    }
    let squareSum = 0;
    for (const number of vector) squareSum = Math.fround(squareSum + Math.fround(number) ** 2);
    if (!Number.isFinite(squareSum)) {
      return `${embedding} with a number that is not finite, or too large to square.`;
    }
    if (squareSum < MIN_NORMAL_NUMBER) {
      return `${embedding} of zeros only, or of numbers too small to square, which has no direction.`;
    }
  }
  return undefined;
}

/** Text limit of an embedding model, learned from its rejections. See {@link createTextLimit}. */
type TextLimit = ReturnType<typeof createTextLimit>;

/** Minimum length of a shortened text. Shorter texts are useless for search. */
const MIN_TEXT_BYTES = 64;

/** Safety factor for the computed length, because tokens are distributed unevenly over text. */
const LENGTH_SAFETY_FACTOR = 0.9;

/** Minimum bytes per token of ordinary text. Keeps an unusual text from lowering the limit too far. */
const MIN_BYTES_PER_TOKEN = 2;

/**
 * Creates the text limit of a model. It counts UTF-8 bytes, because Cyrillic and English texts have similar numbers of
 * bytes per token. If the server reports the token count and its limit, texts are truncated in proportion. Otherwise
 * they are halved.
 */
export function createTextLimit() {
  let maxBytes = Infinity;
  return {
    truncate: (texts: readonly string[]) => texts.map((text) => truncateToBytes(text, maxBytes)),
    /**
     * Shortens the texts of a rejected batch, and lowers the limit for later texts.
     * @returns The shortened texts. Undefined if the error is not about length, or the texts are too short to shorten.
     */
    shorten(texts: readonly string[], error: unknown): string[] | undefined {
      if (!(error instanceof ModelError) || error.code !== 'MODEL_INPUT_TOO_LARGE') {
        return undefined;
      }
      const maxByteLength = Math.max(...texts.map((text) => Buffer.byteLength(text)));
      const { inputTokens, limit } = error.tokens ?? {};
      const ratio =
        inputTokens !== undefined && limit !== undefined
          ? (limit / inputTokens) * LENGTH_SAFETY_FACTOR
          : 0.5;
      const bytes = Math.floor(maxByteLength * ratio);
      if (bytes < MIN_TEXT_BYTES) return undefined;
      maxBytes = Math.min(maxBytes, Math.max(bytes, (limit ?? 0) * MIN_BYTES_PER_TOKEN));
      return texts.map((text) => truncateToBytes(text, bytes));
    },
  };
}

/** Truncates text to at most `bytes` bytes of UTF-8 without splitting a character. */
function truncateToBytes(text: string, bytes: number): string {
  const encodedText = Buffer.from(text);
  if (encodedText.length <= bytes) return text;
  const beginning = encodedText.subarray(0, bytes).toString('utf8');
  return beginning.replace(/\uFFFD+$/, '');
}
