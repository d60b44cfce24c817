import { isDatabaseOutage } from '@oselya/db';
import type { Kysely } from 'kysely';
import type { RawError, Tables, UploadOutcome } from '../../tables.ts';
import { type ErrorCode, errors, problem } from '../../errors.ts';
import type { JobInput } from '../../pipeline/context.ts';
import type { InlineJobs } from '../../queue/inline.ts';
import { processName } from '../../queue/worker.ts';
import { contentHash } from '../payload.ts';
import type { StoredRaw } from '../repository.ts';
import type { Ingest } from '../service.ts';
import type { Form } from './receive-form.ts';
import { findOutcome } from './repository.ts';

/** The answer to a payload that was processed within its request. Contract 4, Answers. */
export type Processed = {
  raw_id: number;
  status: 'completed';
  listing_id: number;
  images: UploadOutcome[];
};

/**
 * Stores a payload that came with its pictures, takes it through the pipeline, and gives what it came to.
 * Where its idempotency key stands for an earlier payload (see `Ingest.store`), it gives what that one came
 * to. The pictures count as a part of the payload: the same text with other pictures is another payload.
 * @throws ProblemError `idempotency_conflict`, `still_processing`, and the reason of a payload that ended
 *   `invalid` or `failed`.
 * @param onStored Called when the payload is committed, or was before.
 */
export type ProcessForm = (
  form: Form & { requestId?: string },
  idempotencyKey: string | undefined,
  onStored: (stored: Pick<StoredRaw, 'isNew' | 'status'>) => void,
) => Promise<Processed>;

/** @param deps.leaseMs How long the record waits for this process to be heard of. */
export function createProcessForm(deps: {
  db: Kysely<Tables>;
  store: Ingest['store'];
  jobs: Pick<InlineJobs<JobInput>, 'run'>;
  leaseMs: number;
}): ProcessForm {
  const { db, store, jobs, leaseMs } = deps;
  const worker = processName('inline');

  return async ({ payload, files, requestId }, idempotencyKey, onStored) => {
    const { source_slug: sourceSlug, external_id: externalId } = payload;
    const hasFiles = files.length > 0;
    const hash = contentHash(
      hasFiles ? { payload, images: files.map(({ sha256 }) => sha256) } : payload,
    );
    const stored = await store({
      source_slug: sourceSlug,
      external_id: externalId,
      payload: JSON.stringify(payload),
      content_hash: hash,
      idempotency_key: idempotencyKey,
      request_id: requestId,
      claim: { worker, leaseMs, uploads: hasFiles },
    });
    onStored(stored);
    const { id: rawId, isNew } = stored;
    if (!isNew) return answer(db, rawId, 'still_processing');
    const job = { rawId, attempt: 1, sourceSlug, externalId, contentHash: hash, requestId };
    const uploads = hasFiles ? files : undefined;
    const outcome = await jobs.run(job, { input: { uploads, canWait: false } });
    try {
      // Of one that was processed here just now an end is known, unless its claim was lost to others.
      return await answer(db, rawId, 'lease_lost');
    } catch (error) {
      // Whose end could not be written for an outage cannot be looked up for it either.
      if (!isDatabaseOutage(error) || (outcome !== 'lost' && outcome !== 'postponed')) throw error;
      const detail = `The database was away for too long: send the payload again (raw_id ${rawId}).`;
      throw problem('interrupted', { detail, members: { raw_id: rawId }, cause: error });
    }
  };
}

/** @param unfinished What it means that the payload has not ended. */
async function answer(
  db: Kysely<Tables>,
  rawId: number,
  unfinished: 'lease_lost' | 'still_processing',
): Promise<Processed> {
  const outcome = await findOutcome(db, rawId);
  switch (outcome?.status) {
    case 'completed': {
      const { listing_id: listingId, images } = outcome;
      if (listingId === null) throw new Error(`Raw record ${rawId} is completed without a listing`);
      return { raw_id: rawId, status: 'completed', listing_id: listingId, images };
    }
    case 'invalid':
    case 'failed':
      throw reasonOf(rawId, outcome.error);
    case 'pending':
      if (unfinished === 'still_processing') throw notDone(rawId, unfinished);
      throw problem('interrupted', {
        detail: `The payload (raw_id ${rawId}) is back in the queue, and processed when what it needs is there.`,
        members: { raw_id: rawId },
      });
    default:
      throw notDone(rawId, unfinished);
  }
}

function notDone(rawId: number, code: 'lease_lost' | 'still_processing'): Error {
  return problem(code, {
    detail: `The payload (raw_id ${rawId}) is not done yet. Send the request again in a moment.`,
    headers: { 'retry-after': '5' },
    members: { raw_id: rawId },
  });
}

/** The recorded reason as an answer. */
function reasonOf(rawId: number, error: RawError | null): Error {
  const { code, message } = error ?? { code: 'internal_error', message: 'It failed.' };
  const known = isErrorCode(code) ? code : 'internal_error';
  return problem(known, {
    detail: `${message} (raw_id ${rawId})`,
    members: { raw_id: rawId },
  });
}

function isErrorCode(code: string): code is ErrorCode {
  return Object.hasOwn(errors, code);
}
