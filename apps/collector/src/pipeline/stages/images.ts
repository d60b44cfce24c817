import { type Fence, SupersededError } from '../../queue/index.ts';
import { type Context, product, type StageDeps } from '../context.ts';
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
  const { rawId, attempt } = context.job;
  const job = {
    listingId: product(context, 'listingId'),
    fence: { rawId, attempt },
    signal,
    observe: deps.model.observe,
  };
  try {
    if (uploads === undefined) {
      const mayAsk = await takeDueOnce(context, deps, job);
      await deps.images.processRemote({ ...job, urls, mayAsk });
    } else await deps.images.processUploaded({ ...job, files: uploads });
  } catch (error) {
    if (error instanceof SupersededError) return superseded;
    throw error;
  }
  return (uploads ?? urls).length === 0 ? skipped : done;
};

/** Taken once: where the stage has to be done again, the addresses are still this job's to ask. */
async function takeDueOnce(
  { products }: Context,
  { images: pictures }: StageDeps,
  job: { listingId: number; fence: Fence },
): Promise<ReadonlySet<string> | undefined> {
  if (products.onlyPictures) products.due ??= await pictures.takeDue(job);
  return products.due;
}
