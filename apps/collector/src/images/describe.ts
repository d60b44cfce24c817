import { imageDescription, type ModelCallEvent, type ModelClient } from '@oselya/model';
import type { Kysely } from 'kysely';
import type { Tables } from '../database/tables.ts';
import { cleanText } from '../text/clean.ts';
import { readPrompt } from '../model/prompt.ts';
import type { Fence } from '../queue/index.ts';
import { VISION_SIDE } from './decode.ts';
import { mapParallel } from '../async/map-parallel.ts';
import { findUndescribed, saveDescription } from './repository.ts';
import type { Thumbnails } from './thumbnails.ts';

/** Its version is recorded with every description, so that one made with an older prompt can be told. */
export const descriptionPrompt = readPrompt('image-description.v1', import.meta.url);

const MAX_DESCRIPTION = 2000;

/** What describing needs of the model client. */
export type Describer = Pick<ModelClient, 'generateObject'>;

/**
 * Has the vision model describe the pictures that nobody has described, each of a listing's once. One that
 * two listings have at the same moment is described for both; the later description is kept.
 * Every failure of the model propagates, as in all that uses it, that of a content filter too: then the
 * pictures stay stored, and the next attempt goes on with those that are left. Specification 001, Errors.
 * @param hints File name or address by hash.
 * @throws ModelError, LeaseLostError.
 */
export async function describeImages(
  deps: { db: Kysely<Tables>; thumbnails: Thumbnails; model: Describer; parallel: number },
  job: {
    hints: ReadonlyMap<string, string>;
    fence: Fence;
    signal: AbortSignal;
    observe: ((event: ModelCallEvent) => void) | undefined;
  },
): Promise<void> {
  const { db, thumbnails, model, parallel } = deps;
  const { hints, fence, signal, observe } = job;
  const undescribed = await findUndescribed(db, [...hints.keys()]);
  await mapParallel(undescribed, parallel, async ({ sha256, width, height }) => {
    signal.throwIfAborted();
    const bytes = await thumbnails.make(sha256, VISION_SIDE);
    const { value, model: describedBy } = await model.generateObject({
      operation: imageDescription.schemaName,
      ...imageDescription,
      system: descriptionPrompt.text,
      data: { hint: hints.get(sha256), width, height },
      image: { bytes, mediaType: 'image/jpeg' },
      signal,
      observe,
    });
    const description = cleanText(value.description).slice(0, MAX_DESCRIPTION);
    await saveDescription(db, fence, {
      ...value,
      sha256,
      description,
      described_by: describedBy,
      prompt_version: descriptionPrompt.version,
    });
  });
}
