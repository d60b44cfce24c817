import type { ModelCallEvent } from '@oselya/model';
import type { ModelUsage } from '../tables.ts';

/** Sums up what requests to the model cost. */
export type ModelCost = {
  /** Counts a request, whatever came of it. */
  observe: (event: ModelCallEvent) => void;
  /** The sum so far. */
  usage(): ModelUsage;
};

/** Begins a sum at nothing. What a server does not count is 0, since a sum of some is still the least there was. */
export function createModelCost(): ModelCost {
  const total: ModelUsage = { calls: 0, input_tokens: 0, output_tokens: 0 };
  return {
    observe({ inputTokens, outputTokens }) {
      total.calls += 1;
      total.input_tokens += inputTokens ?? 0;
      total.output_tokens += outputTokens ?? 0;
    },
    usage: () => ({ ...total }),
  };
}
