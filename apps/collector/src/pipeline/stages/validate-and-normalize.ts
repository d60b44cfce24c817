import { requireOutput, type StageRun } from '../context.ts';
import { extractListing, findRejectionReason } from '../extraction.ts';
import { mergeFields } from '../merge.ts';
import { createInvalidResult, DONE, SKIPPED } from '../outcome.ts';

/** Extracts the facts of the payload, unless an extraction exists. Ends the job of a non-listing. */
export const validate: StageRun = async (context, { model }, signal) => {
  const { outputs } = context;
  const earlier = context.extracted ?? outputs.savedExtraction;
  const payload = requireOutput(context, 'payload');
  const extracted = earlier ?? (await extractListing(model, payload, { signal }));
  const reason = findRejectionReason(extracted);
  if (reason !== undefined) return createInvalidResult('not_a_listing', reason, 'validate');
  outputs.extracted = extracted;
  return earlier === undefined ? DONE : SKIPPED;
};

/** Merges the fields of the payload and the extraction. */
export const normalize: StageRun = async (context) => {
  const payload = requireOutput(context, 'payload');
  const extracted = requireOutput(context, 'extracted');
  Object.assign(context.outputs, mergeFields(context.job.rawId, payload, extracted));
  return DONE;
};
