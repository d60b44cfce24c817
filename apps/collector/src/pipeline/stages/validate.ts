import { product } from '../context.ts';
import { extractListing, refusalOf } from '../extraction.ts';
import { done, invalid, skipped } from '../outcome.ts';
import type { StageRun } from '../stage.ts';

/**
 * Has the model read the payload, unless that was done before. What is no property listing ends here.
 */
export const validate: StageRun = async (context, { model }, signal) => {
  const extracted =
    context.extracted ?? (await extractListing(model, product(context, 'payload'), { signal }));
  const refusal = refusalOf(extracted);
  if (refusal !== undefined) return invalid('not_a_listing', refusal, 'validate');
  context.products.extracted = extracted;
  return context.extracted === undefined ? done : skipped;
};
