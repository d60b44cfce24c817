import { SupersededError } from '../../queue/index.ts';
import { product } from '../context.ts';
import { done, skipped, superseded } from '../outcome.ts';
import type { StageRun } from '../stage.ts';

/**
 * Stores and has described the pictures that came with the payload, or fetches those that it names; the
 * listing then has these and no others. A picture that cannot be used is recorded with its reason, and
 * never fails the listing.
 */
export const images: StageRun = async (context, deps, signal) => {
  const { uploads, extracted } = context;
  // The payload is only read again.
  if (extracted !== undefined) return skipped;
  const urls = product(context, 'payload').image_urls ?? [];
  const { onlyPictures: onlyDue = false } = context.products;
  const { rawId, attempt } = context.job;
  const job = {
    listingId: product(context, 'listingId'),
    fence: { rawId, attempt },
    signal,
    observe: deps.model.observe,
  };
  try {
    if (uploads === undefined) await deps.images.processRemote({ ...job, urls, onlyDue });
    else await deps.images.processUploaded({ ...job, files: uploads });
  } catch (error) {
    if (error instanceof SupersededError) return superseded;
    throw error;
  }
  return (uploads ?? urls).length === 0 ? skipped : done;
};
