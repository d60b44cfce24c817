import { createModelClient, type ModelClient } from '@oselya/model';
import { DIMENSIONS } from '../support/database.ts';

/** The mock, or a client of a model server. */
export function openModel(url: string | undefined): ModelClient {
  return createModelClient({
    mode: url === undefined ? 'mock' : 'openai',
    baseUrl: url,
    chat: 'chat',
    embedding: 'embedding',
    timeoutMs: 10_000,
    embeddingDimensions: DIMENSIONS,
    retry: { initialDelayMs: 1, maxDelayMs: 5 },
    breaker: { halfOpenAfterMs: 30 },
  });
}
