import { requireOutput, type StageRun } from '../context.ts';
import { mergeFields } from '../merge.ts';
import { extractListing, findRejectionReason } from '../extraction.ts';
import { createInvalidResult, DONE_RESULT, SKIPPED_RESULT } from '../outcome.ts';

/** Extracts the facts of the payload, unless an extraction exists. Ends the job if the payload is not a listing. */
export const validate: StageRun = async (context, { model }, signal) => {
  const { outputs } = context;
  const earlierExtraction = context.extractionRecord ?? outputs.savedExtraction;
  const payload = requireOutput(context, 'payload');
  const extractionRecord = earlierExtraction ?? (await extractListing(model, payload, { signal }));
  const reason = findRejectionReason(extractionRecord);
  if (reason !== undefined) return createInvalidResult('not_a_listing', reason, 'validate');
  outputs.extractionRecord = extractionRecord;
  return earlierExtraction === undefined ? DONE_RESULT : SKIPPED_RESULT;
};

/** Merges the fields of the payload, the extraction and the corrections, and resolves their place. */
export const normalize: StageRun = async (context) => {
  const { job, outputs } = context;
  const payload = requireOutput(context, 'payload');
  const extractionRecord = requireOutput(context, 'extractionRecord');
  const corrections = requireOutput(context, 'storedCorrections');
  Object.assign(outputs, mergeFields(job.rawId, payload, extractionRecord, corrections));
  return DONE_RESULT;
};
