import { SupersededError } from '../../images/repository.ts';
import { requireOutput, type StageRun } from '../context.ts';
import { DONE_RESULT, SKIPPED_RESULT, SUPERSEDED_RESULT } from '../outcome.ts';

/**
 * Replaces the images of the listing with the uploads or the URLs of the payload, and describes
 * them. Invalid images are recorded with their errors. Reprocessing only describes existing images.
 */
export const processImages: StageRun = async (context, deps, signal) => {
  const { uploads, extractionRecord, shouldDescribeAgain = false } = context;
  const urls = requireOutput(context, 'payload').image_urls ?? [];
  const { rawId, attempt } = context.job;
  const job = {
    listingId: requireOutput(context, 'listingId'),
    fence: { rawId, attempt },
    signal,
    observe: deps.model.observe,
  };
  if (extractionRecord !== undefined || shouldDescribeAgain) {
    const count = await deps.images.describeAll(job, { outdated: shouldDescribeAgain });
    return count > 0 ? DONE_RESULT : SKIPPED_RESULT;
  }
  // An earlier attempt stored the uploads. The listing keeps them.
  if (uploads === undefined && requireOutput(context, 'hasUploads')) return SKIPPED_RESULT;
  try {
    await (uploads === undefined
      ? deps.images.processRemote({ ...job, urls, isDueOnly: context.outputs.isImagesOnly })
      : deps.images.processUploaded({ ...job, files: uploads }));
  } catch (error) {
    if (error instanceof SupersededError) return SUPERSEDED_RESULT;
    throw error;
  }
  return (uploads ?? urls).length === 0 ? SKIPPED_RESULT : DONE_RESULT;
};
