import type { EmbeddingModelV4, LanguageModelV4 } from '@ai-sdk/provider';

/** Whether the models can be reached. */
export type ModelHealth = {
  status: 'ok' | 'down';
  /** Why they cannot; holds no secret. */
  detail?: string;
};

/** The models of one mode. Everything above is the same for each of them. */
export type ModelBackend = {
  chat: LanguageModelV4;
  /** A model of the same server, by its name there; the mock has one for all names. */
  chatModel(name: string): LanguageModelV4;
  vision: LanguageModelV4;
  embedding: EmbeddingModelV4;
  /** The variables that say where they are, for error messages. */
  addresses: { chat: string; embedding: string };
  health(signal: AbortSignal): Promise<ModelHealth>;
  close(): Promise<void>;
};
