import { SupersededError } from '../../queue/index.ts';
import { product } from '../context.ts';
import { done, skipped, superseded } from '../outcome.ts';
import type { StageRun } from '../stage.ts';

/**
 * Stores and has described the pictures that came with the payload, or fetches those that it names; the
 * listing then has these and no others. A picture that cannot be used is recorded with its reason, and
 * never fails the listing; nor does one that the model will not describe. A payload that is only read again
 * leaves the pictures as they are, but those that have no description are asked for again: the model may be
 * another one by now, or its prompt. ADR 0017.
 */
export const images: StageRun = async (context, deps, signal) => {
  const { uploads, extracted, describesAgain = false } = context;
  const urls = product(context, 'payload').image_urls ?? [];
  const { rawId, attempt } = context.job;
  const job = {
    listingId: product(context, 'listingId'),
    fence: { rawId, attempt },
    signal,
    observe: deps.model.observe,
  };
  if (extracted !== undefined || describesAgain) {
    const count = await deps.images.describeAll(job, { outdated: describesAgain });
    return count > 0 ? done : skipped;
  }
  // They came along with an earlier attempt, and the listing keeps them.
  if (uploads === undefined && product(context, 'hasUploads')) return skipped;
  try {
    if (uploads === undefined) {
      const { onlyPictures } = context.products;
      const mayAsk = onlyPictures ? await deps.images.takeDue(job) : undefined;
      await deps.images.processRemote({ ...job, urls, mayAsk });
    } else await deps.images.processUploaded({ ...job, files: uploads });
  } catch (error) {
    if (error instanceof SupersededError) return superseded;
    throw error;
  }
  return (uploads ?? urls).length === 0 ? skipped : done;
};
