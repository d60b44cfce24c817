import type { ModelCallEvent, ModelClient } from '@oselya/model';
import type { ModelUsage } from '../database.ts';
import type { Embedded, EmbedText } from '../embeddings/batches.ts';

/** The model as one job uses it: what each request costs is summed for the job. */
export type JobModel = Pick<ModelClient, 'generateObject' | 'chatModel' | 'embeddingModel'> & {
  /** Embeds a text, perhaps in one request with those of other jobs. */
  embed(text: string, signal: AbortSignal): Promise<Embedded>;
  /** Counts a request that somebody else makes for the job. */
  observe: (event: ModelCallEvent) => void;
  /** The sum so far. */
  usage(): ModelUsage;
};

/** @param embedText Shared by all jobs. */
export function createJobModel(
  model: Pick<ModelClient, 'generateObject' | 'chatModel' | 'embeddingModel'>,
  embedText: EmbedText,
): JobModel {
  const total: ModelUsage = { calls: 0, input_tokens: 0, output_tokens: 0 };
  const observe = ({ inputTokens, outputTokens }: ModelCallEvent) => {
    total.calls += 1;
    total.input_tokens += inputTokens ?? 0;
    total.output_tokens += outputTokens ?? 0;
  };
  return {
    chatModel: model.chatModel,
    embeddingModel: model.embeddingModel,
    generateObject: (request) => model.generateObject({ ...request, observe }),
    embed: (text, signal) => embedText({ text, signal, observe }),
    observe,
    usage: () => ({ ...total }),
  };
}
