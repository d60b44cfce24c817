import { product } from '../context.ts';
import { extractListing, refusalOf } from '../extraction.ts';
import { done, invalid, skipped } from '../outcome.ts';
import type { StageRun } from '../stage.ts';

/**
 * Has the model read the payload, unless that was done before: by whoever has it processed, or by an attempt that
 * an outage met after it. What is no property listing ends here.
 */
export const validate: StageRun = async (context, { model }, signal) => {
  const before = context.extracted ?? context.products.kept;
  const extracted =
    before ?? (await extractListing(model, product(context, 'payload'), { signal }));
  const refusal = refusalOf(extracted);
  if (refusal !== undefined) return invalid('not_a_listing', refusal, 'validate');
  context.products.extracted = extracted;
  return before === undefined ? done : skipped;
};
