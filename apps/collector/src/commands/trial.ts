import type { ModelCallEvent } from '@oselya/model';
import { readConfig } from '../config.ts';
import type { Payload } from '../ingest/payload.ts';
import { openModel } from '../model.ts';
import { extractListing, extractionPrompt, findRejectionReason } from '../pipeline/extraction.ts';
import { type Facts, mergeFacts } from '../pipeline/merge.ts';

/** Failure limit that keeps the breaker closed, because an open breaker hides the cause of a failure. */
const MAX_FAILURES = 1_000_000;

/** Result of an extraction: whether the payload is a listing, and the fields of the listing. */
export type TrialExtraction = { isListing: boolean; facts: Partial<Facts> };

/** Configured model with the prompts of the pipeline. Nothing is stored. */
export type Trial = ReturnType<typeof openTrial>;

/**
 * Opens the configured model without a database.
 * @param options.usesMock Whether to open the mock model instead.
 * @throws ConfigError, StartError.
 */
export function openTrial(
  env: NodeJS.ProcessEnv,
  options: { usesMock: boolean } = { usesMock: false },
) {
  const config = readConfig(options.usesMock ? { ...env, MODEL_MODE: 'mock' } : env, {
    servesApi: false,
  });
  const model = openModel(config, { breaker: { failures: MAX_FAILURES } });
  return {
    mode: config.MODEL_MODE,
    chatModel: model.chatModel,
    embeddingModel: model.embeddingModel,
    promptVersion: extractionPrompt.version,
    parallel: config.COLLECTOR_WORKERS,

    /**
     * Extracts a listing from a payload with the prompt, checks and rules of the pipeline.
     * @param request.observe Called for each request to the model.
     * @throws ModelError.
     */
    async read(
      payload: Payload,
      request: { signal: AbortSignal; observe: (event: ModelCallEvent) => void },
    ): Promise<TrialExtraction> {
      const extractionRecord = await extractListing(model, payload, request);
      if (findRejectionReason(extractionRecord) !== undefined)
        return { isListing: false, facts: {} };
      return { isListing: true, facts: mergeFacts(payload, extractionRecord.extraction).facts };
    },

    /**
     * Embeds text and returns the number of dimensions.
     * @throws ModelError.
     */
    async embed(text: string, signal: AbortSignal): Promise<number> {
      const { vectors } = await model.embed([text], { signal });
      return vectors[0]?.length ?? 0;
    },

    [Symbol.asyncDispose]: () => model.close(),
  };
}
