import { namerOf } from '../../listing/provenance.ts';
import { type Context, product } from '../context.ts';
import { diffStates, isMaterialChange, listingState, TRACKED } from '../listing-state.ts';
import { done, skipped, superseded } from '../outcome.ts';
import type { StageRun } from '../stage.ts';
import { findPriorStates, type PriorStates, writeSnapshot } from './snapshot.sql.ts';

/**
 * Records what the listing is now, who read it so, and all that changed since the snapshot before: one row a
 * payload, and one more each time that it is read again with another result. The first one of a listing has
 * no changes. A payload with which only the model's words are others makes none: the next one shows them.
 * Whoever has it read again wants those words, so there each change counts. Specification 001, What the
 * service does, 2; Contract 4, Listings.
 */
export const snapshot: StageRun = async (context, { db }) => {
  const { job } = context;
  const listingId = product(context, 'listingId');
  const prior = await findPriorStates(db, job, listingId);
  const { revision, own, before, titleBefore } = prior;
  const state = {
    ...listingState(product(context, 'payload'), product(context, 'facts')),
    pictures: picturesOf(context, prior),
  };
  const { model, prompt_version: promptVersion, fields } = product(context, 'provenance');
  const changes = before === null ? {} : diffStates(before, state, TRACKED);
  const isChanged =
    revision > 0 ? Object.keys(changes).length > 0 : isMaterialChange(changes, fields, titleBefore);
  // What an earlier attempt has written must not stay as it read it.
  if (before !== null && own === null && !isChanged) return skipped;
  const titleBy = namerOf(fields['title']) ?? null;
  const made = { revision, state, changes, titleBy, model, promptVersion };
  return (await writeSnapshot(db, job, listingId, made)) ? done : superseded;
};

/**
 * The pictures that the payload brings: their addresses, or the SHA-256 of those that came along. A payload
 * that is only read again, or whose pictures came along with its first attempt, leaves them as they were.
 */
function picturesOf(context: Context, { own, before }: PriorStates): unknown {
  const { uploads, extracted } = context;
  if (uploads !== undefined) return uploads.map(({ sha256 }) => sha256);
  const known = own?.['pictures'] ?? before?.['pictures'];
  return extracted !== undefined || product(context, 'hasUploads')
    ? known
    : (product(context, 'payload').image_urls ?? []);
}
