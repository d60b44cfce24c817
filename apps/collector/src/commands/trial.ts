import type { ModelCallEvent } from '@oselya/model';
import { readConfig } from '../config.ts';
import type { Payload } from '../ingest/payload.ts';
import { openModel } from '../model.ts';
import { extractListing, extractionPrompt, rejectionOf } from '../pipeline/extraction.ts';
import type { Facts } from '../pipeline/merge.ts';
import { mergeFacts } from '../pipeline/merge.ts';

/** A trial ends with its first failure, whose reason an open breaker would hide. */
const MANY_FAILURES = 1_000_000;

/** What a payload would become. */
export type TrialReading = {
  isListing: boolean;
  /** As the listing would have them; none where it is no listing. */
  facts: Partial<Facts>;
};

/** The configured model, at work as the pipeline has it work, with nothing stored. */
export type Trial = AsyncDisposable & {
  mode: 'mock' | 'openai';
  chatModel: string;
  embeddingModel: string;
  promptVersion: string;
  /** How many payloads a worker would have at work at once. */
  parallel: number;
  /**
   * Reads a payload: the same prompt, the same checks, the same rules.
   * @param observe Told of each request to the model.
   * @throws ModelError.
   */
  read(
    payload: Payload,
    options: { signal: AbortSignal; observe: (event: ModelCallEvent) => void },
  ): Promise<TrialReading>;
  /** Embeds a text. @returns The width of the vector. @throws ModelError. */
  embed(text: string, signal: AbortSignal): Promise<number>;
};

/**
 * Opens the model of the configuration, and no database.
 * @param options.mock The mock, whatever the configuration says.
 * @throws ConfigError, StartError: each for the person who gives the command.
 */
export function openTrial(
  env: NodeJS.ProcessEnv,
  options: { mock: boolean } = { mock: false },
): Trial {
  const config = readConfig(options.mock ? { ...env, MODEL_MODE: 'mock' } : env, { api: false });
  const model = openModel(config, { breaker: { failures: MANY_FAILURES } });
  return {
    mode: config.MODEL_MODE,
    chatModel: model.chatModel,
    embeddingModel: model.embeddingModel,
    promptVersion: extractionPrompt.version,
    parallel: config.COLLECTOR_WORKERS,
    async read(payload, asked) {
      const extracted = await extractListing(model, payload, asked);
      if (rejectionOf(extracted) !== undefined) return { isListing: false, facts: {} };
      return { isListing: true, facts: mergeFacts(payload, extracted.extraction).facts };
    },
    async embed(text, signal) {
      const { vectors } = await model.embed([text], { signal });
      return vectors[0]?.length ?? 0;
    },
    [Symbol.asyncDispose]: () => model.close(),
  };
}
