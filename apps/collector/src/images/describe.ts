import type { Logger } from '@oselya/kit';
import { imageDescription, type ModelCallEvent, type ModelClient } from '@oselya/model';
import type { Kysely } from 'kysely';
import { mapParallel } from '../async/map-parallel.ts';
import type { Tables } from '../database/tables.ts';
import { readPrompt } from '../model/prompt.ts';
import { cleanText } from '../text/clean.ts';
import { CONTROL_SIZE, controlPicture } from './control-picture.ts';
import { VISION_SIDE } from './decode.ts';
import {
  findOutdatedOf,
  findUndescribed,
  findUndescribedOf,
  saveDescription,
  saveRefusal,
  type Undescribed,
} from './descriptions.sql.ts';
import { AT_ONCE, type ListingJob } from './listing-job.ts';
import type { ImageEvent } from './outcome.ts';
import { ImageError } from './image-error.ts';
import { type Asked, toDescribeError } from './refusal.ts';
import type { Thumbnails } from './thumbnails.ts';
import { endTrialTurn, takeTrialTurn } from './trial-turns.sql.ts';
import { createAskForPicture, createTrialTime } from './trials.ts';

/** Its version is recorded with every description, so that one made with an older prompt can be told. */
export const descriptionPrompt = readPrompt('image-description.v1', import.meta.url);

const MAX_DESCRIPTION = 2000;

/** For what a trial does beside its two calls to the model. */
const TRIAL_SLACK_MS = 30_000;

/** The work on one listing's pictures, and what `createAskForPicture` has to know of it. */
type TrialJob = ListingJob & { mayBegin: () => boolean; mayWait: boolean };

/** What describing needs of the model client. */
export type Describer = Pick<ModelClient, 'generateObject' | 'visionModel'>;

/**
 * Has the vision model describe stored pictures, each for all listings that have it. One that two listings
 * have at the same moment is described for both; the later description is kept. One that the model refuses, that
 * its server fails on while it answers others, or that cannot be decoded any more is recorded with its reason; every
 * other failure of the model propagates, as in all that uses it: then the next attempt goes on with those that are
 * left. Specification 001, Errors; Contract 4, Images; ADR 0017.
 */
export type Describe = {
  /**
   * Those of these pictures that nobody has described, but none that was refused when it was asked for with
   * the same model and prompt.
   * @param hints File name or address by hash.
   * @param options.parallel How many at once.
   * @param options.mayWait Whether a limit of the server may be waited for; nobody who sent a request waits so long.
   * @throws ModelError, LeaseLostError, `signal.reason`.
   */
  pictures(
    job: ListingJob,
    hints: ReadonlyMap<string, string>,
    options: { parallel: number; mayWait: boolean },
  ): Promise<void>;
  /**
   * All of a listing's pictures that have no description, refused ones too.
   * @param options.outdated Those instead that are outdated: described by another model or prompt, or by none.
   * @returns How many.
   * @throws ModelError, LeaseLostError, `signal.reason`.
   */
  allOf(job: ListingJob, options?: { outdated: boolean }): Promise<number>;
  /** What they are described with. */
  readonly asked: Asked;
};

/**
 * Makes the function over the store, the model and the turn that all processes share at trials.
 * @param deps.modelTimeoutMs The deadline of one call to the model.
 * @param deps.limitPauseMs How long a picture that met a limit waits at least; see `createAskForPicture`.
 * @param deps.observe Told of each picture that is refused.
 */
export function createDescribe(deps: {
  db: Kysely<Tables>;
  thumbnails: Thumbnails;
  model: Describer;
  modelTimeoutMs: number;
  limitPauseMs?: number | undefined;
  log: Pick<Logger, 'warn'>;
  observe: (event: ImageEvent) => void;
}): Describe {
  const { db, thumbnails, model, modelTimeoutMs, limitPauseMs, log, observe } = deps;
  const askForPicture = createAskForPicture(takeTurn, { limitPauseMs });
  const asked = {
    requested_model: model.visionModel,
    prompt_version: descriptionPrompt.version,
  };

  async function takeTurn() {
    const turn = await takeTrialTurn(db, 2 * modelTimeoutMs + TRIAL_SLACK_MS);
    if (turn === undefined) return undefined;
    // What was found out stands, and others wait a few minutes.
    return () =>
      endTrialTurn(db, turn).catch((error: unknown) => {
        log.warn({ err: error }, 'the turn at the trial of a picture could not be ended');
      });
  }

  /** Shows the model a JPEG. */
  function show(
    { signal, observe: onModelCall }: ListingJob,
    {
      bytes,
      data,
      onRequest,
    }: {
      bytes: Uint8Array;
      data: object;
      onRequest?: (outcome: ModelCallEvent['outcome']) => void;
    },
  ) {
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
        onModelCall?.(event);
      },
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
      ask: (onRequest) => show(job, { bytes, data: { hint, width, height }, onRequest }),
      control: async () => show(job, { bytes: await controlPicture(), data: CONTROL_SIZE }),
      mayBegin,
      mayWait,
      signal,
    });
  }

  async function describe(
    job: TrialJob,
    one: Undescribed,
    hint: string | undefined,
  ): Promise<void> {
    const { listingId, fence, signal } = job;
    const { sha256 } = one;
    signal.throwIfAborted();
    const verdict = await ask(job, one, hint).catch((error: unknown) => {
      if (error instanceof ImageError) return { refusal: error };
      throw error;
    });
    if ('answer' in verdict) {
      const { value, model: describedBy } = verdict.answer;
      await saveDescription(db, fence, {
        ...value,
        sha256,
        description: cleanText(value.description).slice(0, MAX_DESCRIPTION),
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
  }

  return {
    async pictures(job, hints, { parallel, mayWait }) {
      const undescribed = await findUndescribed(db, [...hints.keys()], asked);
      const trialJob = { ...job, mayBegin: createTrialTime(), mayWait };
      await mapParallel(undescribed, parallel, (one) =>
        describe(trialJob, one, hints.get(one.sha256)),
      );
    },
    asked,
    async allOf(job, { outdated } = { outdated: false }) {
      const undescribed = outdated
        ? await findOutdatedOf(db, job.listingId, asked)
        : await findUndescribedOf(db, job.listingId);
      const trialJob = { ...job, mayBegin: createTrialTime(), mayWait: true };
      await mapParallel(undescribed, AT_ONCE.remote, ({ url, ...one }) =>
        describe(trialJob, one, url ?? undefined),
      );
      return undescribed.length;
    },
  };
}
