import { SupersededError } from '../../queue/job.ts';
import { product, type StageRun } from '../context.ts';
import { done, skipped, superseded } from '../outcome.ts';

/**
 * Fetches and describes the pictures that the payload names; the listing then has these and no others.
 * A picture that cannot be used is recorded with its reason, and never fails the listing.
 */
export const images: StageRun = async (context, deps, signal) => {
  const urls = product(context, 'payload').image_urls ?? [];
  const { rawId, attempt } = context.job;
  try {
    await deps.images.processRemote({
      listingId: product(context, 'listingId'),
      urls,
      fence: { rawId, attempt },
      signal,
    });
  } catch (error) {
    if (error instanceof SupersededError) return superseded;
    throw error;
  }
  return urls.length === 0 ? skipped : done;
};
