import type { ModelClient } from '@oselya/model';
import type { Embedded, EmbedText } from '../embeddings/batches.ts';
import { createModelCost, type ModelCost } from '../model/cost.ts';

/** The model as one job uses it: what each request costs is summed for the job. */
export type JobModel = Pick<ModelClient, 'generateObject' | 'chatModel' | 'embeddingModel'> &
  ModelCost & {
    /** Embeds a text, perhaps in one request with those of other jobs. */
    embed(text: string, signal: AbortSignal): Promise<Embedded>;
  };

/**
 * Makes the model of one job out of that of all jobs.
 * @param embedText Shared by all jobs.
 * @param options.cost Where it is summed.
 * @param options.alone Whether the job's text is embedded in a request of its own.
 */
export function createJobModel(
  model: Pick<ModelClient, 'generateObject' | 'chatModel' | 'embeddingModel'>,
  embedText: EmbedText,
  { alone = false, cost = createModelCost() }: { alone?: boolean; cost?: ModelCost } = {},
): JobModel {
  const { observe } = cost;
  return {
    ...cost,
    chatModel: model.chatModel,
    embeddingModel: model.embeddingModel,
    generateObject: (request) => model.generateObject({ ...request, observe }),
    embed: (text, signal) => embedText({ text, signal, observe, alone }),
  };
}
