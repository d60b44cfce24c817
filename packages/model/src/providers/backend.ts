import type { EmbeddingModelV4, LanguageModelV4 } from '@ai-sdk/provider';
import type { CallKind } from '../call-health.ts';
import type { Addressee } from '../exchange.ts';

/** Whether the models can be reached, and answer. */
export type ModelHealth = {
  /** `failing`: they can be reached, and the last request of some kind failed. */
  status: 'ok' | 'failing' | 'down';
  /** Why they cannot, or do not; holds no secret. */
  detail?: string;
};

/** The models of one mode. Everything above is the same for each of them. */
export type ModelBackend = {
  chat: LanguageModelV4;
  /** A model of the same server, by its name there; the mock has one for all names. */
  chatModel(name: string): LanguageModelV4;
  /** Nothing where no image is shown to a model: `MODEL_VISION=off`. */
  vision: LanguageModelV4 | undefined;
  embedding: EmbeddingModelV4;
  /** The servers that they are asked at: the same object where one does several. */
  addresses: Record<CallKind, Addressee>;
  health(signal: AbortSignal): Promise<ModelHealth>;
  close(): Promise<void>;
};
