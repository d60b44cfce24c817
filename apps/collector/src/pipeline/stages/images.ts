import { product, type StageRun } from '../context.ts';
import { done, skipped } from '../outcome.ts';

/**
 * Fetches and describes the pictures that the payload names; the listing then has these and no others.
 * A picture that cannot be used is recorded with its reason, and never fails the listing.
 */
export const images: StageRun = async (context, deps, signal) => {
  const urls = product(context, 'payload').image_urls ?? [];
  const { rawId, attempt } = context.job;
  await deps.images.processRemote({
    listingId: product(context, 'listingId'),
    urls,
    fence: { rawId, attempt },
    signal,
  });
  return urls.length === 0 ? skipped : done;
};
