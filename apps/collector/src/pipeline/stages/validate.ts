import { requireOutput, type StageRun } from '../context.ts';
import { extractListing, findRejectionReason } from '../extraction.ts';
import { done, invalid, skipped } from '../outcome.ts';

/**
 * Has the model read the payload, unless a reading is given or was savedExtraction. Ends a payload that is no
 * property listing.
 */
export const validate: StageRun = async (context, { model }, signal) => {
  const { outputs } = context;
  const before = context.extracted ?? outputs.savedExtraction;
  const extracted =
    before ?? (await extractListing(model, requireOutput(context, 'payload'), { signal }));
  const rejection = findRejectionReason(extracted);
  if (rejection !== undefined) return invalid('not_a_listing', rejection, 'validate');
  outputs.extracted = extracted;
  return before === undefined ? done : skipped;
};
