import { InvalidResponseDataError } from '@ai-sdk/provider';
import type { EmbeddingModelMiddleware } from 'ai';
import { isRecord } from '../is-record.ts';

/**
 * Puts embeddings into the order of their texts. Servers that batch may answer out of order and say
 * so by `index`, which `@ai-sdk/openai-compatible` 3.0 does not look at.
 */
export const embeddingOrder: EmbeddingModelMiddleware = {
  specificationVersion: 'v4',
  async wrapEmbed({ doEmbed }) {
    const result = await doEmbed();
    const indexes = indexesIn(result.response?.body);
    return indexes === undefined
      ? result
      : { ...result, embeddings: ordered(result.embeddings, indexes) };
  },
};

/** Gives the index of each item, or nothing when the server does not number them. */
function indexesIn(body: unknown): unknown[] | undefined {
  if (!isRecord(body) || !Array.isArray(body['data'])) return undefined;
  const indexes = body['data'].map((item: unknown) => (isRecord(item) ? item['index'] : undefined));
  return indexes.every((index) => index === undefined) ? undefined : indexes;
}

function ordered(embeddings: number[][], indexes: unknown[]): number[][] {
  const places = new Map(indexes.map((index, place) => [index, place]));
  return embeddings.map((_, index) => {
    const embedding = embeddings[places.get(index) ?? -1];
    if (embedding) return embedding;
    throw new InvalidResponseDataError({
      data: indexes,
      message: 'The indexes of the embeddings do not count them.',
    });
  });
}
