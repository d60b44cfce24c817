import type { Logger } from '@oselya/kit';
import { imageDescription, type ModelCallEvent, type ModelClient } from '@oselya/model';
import type { Kysely } from 'kysely';
import type { Tables } from '../tables.ts';
import { readPrompt } from '../model/prompt.ts';
import { cleanText, cutText } from '../text.ts';
import { endExclusiveTurn, takeExclusiveTurn } from '../turns/exclusive.sql.ts';
import { CONTROL_SIZE, controlPicture } from './control-picture.ts';
import { VISION_SIDE } from './decode.ts';
import { saveDescription, saveRefusal, type Undescribed } from './descriptions.sql.ts';
import { ImageError } from './image-error.ts';
import type { ListingJob } from './listing-job.ts';
import type { ImageEvent } from './outcome.ts';
import { type Asked, toDescribeError } from './refusal.ts';
import type { Thumbnails } from './thumbnails.ts';
import { createAskForPicture } from './trials.ts';

/** Its version is recorded with every description, so that one made with an older prompt can be told. */
export const descriptionPrompt = readPrompt('image-description.v2', import.meta.url);

const MAX_DESCRIPTION = 2000;

/** The turn that all processes share at trials. ADR 0017. */
const TRIAL_TURN = 'picture_trial';

/** For what a trial does beside its two calls to the model. */
const TRIAL_SLACK_MS = 30_000;

/** The work on one listing's pictures, and what `createAskForPicture` has to know of it. */
export type TrialJob = ListingJob & { mayBegin: () => boolean; mayWait: boolean };

/** What describing needs of the model client. */
export type Describer = Pick<ModelClient, 'generateObject' | 'visionModel'>;

/** What describing works with. */
export type DescribeDeps = {
  db: Kysely<Tables>;
  thumbnails: Thumbnails;
  model: Describer;
  /** The deadline of one call to the model. */
  modelTimeoutMs: number;
  /** How long a picture that met a limit waits at least; see `createAskForPicture`. */
  limitPauseMs?: number | undefined;
  log: Pick<Logger, 'warn'>;
  /** Told of each picture that is refused. */
  observe: (event: ImageEvent) => void;
};

/**
 * Has the vision model describe one picture, and records its description, or why it has none.
 * @param hint The file name or address of the picture.
 * @throws ModelError that says nothing of the picture, LeaseLostError, `signal.reason`.
 */
export type DescribeOne = (
  job: TrialJob,
  picture: Undescribed,
  hint: string | undefined,
) => Promise<void>;

/**
 * Makes the function over the store, the model and the turn that all processes share at trials.
 * @param asked What is recorded of what it was described with.
 */
export function createDescribeOne(deps: DescribeDeps, asked: Asked): DescribeOne {
  const { db, thumbnails, model, modelTimeoutMs, limitPauseMs, log, observe } = deps;
  const askForPicture = createAskForPicture(takeTurn, { limitPauseMs });

  async function takeTurn() {
    const turn = await takeExclusiveTurn(db, TRIAL_TURN, 2 * modelTimeoutMs + TRIAL_SLACK_MS);
    if (turn === undefined) return undefined;
    // What was found out stands, and others wait a few minutes.
    return () =>
      endExclusiveTurn(db, turn).catch((error: unknown) => {
        log.warn({ err: error }, 'the turn at the trial of a picture could not be ended');
      });
  }

  async function ask(
    job: TrialJob,
    { sha256, width, height }: Undescribed,
    hint: string | undefined,
  ) {
    const { mayBegin, mayWait, signal } = job;
    const bytes = await thumbnails.make(sha256, VISION_SIDE);
    return askForPicture(sha256, {
      ask: (onRequest) => show(model, job, { bytes, data: { hint, width, height }, onRequest }),
      control: async () => show(model, job, { bytes: await controlPicture(), data: CONTROL_SIZE }),
      mayBegin,
      mayWait,
      signal,
    });
  }

  return async (job, picture, hint) => {
    const { listingId, fence, signal } = job;
    const { sha256 } = picture;
    signal.throwIfAborted();
    const verdict = await ask(job, picture, hint).catch((error: unknown) => {
      if (error instanceof ImageError) return { refusal: error };
      throw error;
    });
    if ('answer' in verdict) {
      const { value, model: describedBy } = verdict.answer;
      await saveDescription(db, fence, {
        ...value,
        sha256,
        description: cutText(cleanText(value.description), MAX_DESCRIPTION),
        described_by: describedBy,
        ...asked,
      });
      return;
    }
    const { refusal } = verdict;
    await saveRefusal(db, fence, { sha256, error: toDescribeError(refusal, asked) });
    observe('undescribed');
    log.warn(
      { err: refusal, raw_id: fence.rawId, listing_id: listingId, sha256 },
      'a picture could not be described',
    );
  };
}

/** Shows the model a JPEG. */
function show(
  model: Describer,
  { signal, observe }: ListingJob,
  picture: {
    bytes: Uint8Array;
    data: object;
    onRequest?: (outcome: ModelCallEvent['outcome']) => void;
  },
) {
  const { bytes, data, onRequest } = picture;
  signal.throwIfAborted();
  return model.generateObject({
    operation: imageDescription.schemaName,
    ...imageDescription,
    system: descriptionPrompt.text,
    data,
    image: { bytes, mediaType: 'image/jpeg' },
    signal,
    observe(event) {
      onRequest?.(event.outcome);
      observe?.(event);
    },
  });
}
