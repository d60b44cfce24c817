import { hostname } from 'node:os';
import type { Kysely } from 'kysely';
import type { RawError, Tables } from '../../database.ts';
import { type ErrorCode, errors, problem } from '../../errors.ts';
import type { UploadOutcome } from '../../images/index.ts';
import type { InlineJobs } from '../../queue/inline.ts';
import { contentHash } from '../content-hash.ts';
import type { Form } from './receive-form.ts';
import { findOutcome, insertClaimed } from './repository.ts';

export type Processed = {
  raw_id: number;
  status: 'completed';
  listing_id: number;
  images: UploadOutcome[];
};

/**
 * Stores a payload that came with its pictures, takes it through the pipeline, and gives what it came to.
 * Under an idempotency key that came before, it gives what the earlier payload came to. The pictures count
 * as a part of the payload: the same text with other pictures is another payload.
 * @throws ProblemError `idempotency_conflict`, `still_processing`, and the reason of a payload that ended
 *   `invalid` or `failed`.
 * @param onStored Called when the payload is committed, or was before.
 */
export type ProcessForm = (
  form: Form & { requestId?: string },
  idempotencyKey: string | undefined,
  onStored: () => void,
) => Promise<Processed>;

/** @param deps.leaseMs How long the record waits for this process to be heard of. */
export function createProcessForm(deps: {
  db: Kysely<Tables>;
  jobs: Pick<InlineJobs, 'run'>;
  leaseMs: number;
}): ProcessForm {
  const { db, jobs, leaseMs } = deps;
  const worker = `${hostname()}/${process.pid}/inline`;

  return async ({ payload, files, requestId }, idempotencyKey, onStored) => {
    const { source_slug: sourceSlug, external_id: externalId } = payload;
    const hasFiles = files.length > 0;
    const hash = contentHash(
      hasFiles ? { payload, images: files.map(({ sha256 }) => sha256) } : payload,
    );
    const raw = {
      source_slug: sourceSlug,
      external_id: externalId,
      payload: JSON.stringify(payload),
      content_hash: hash,
      uploads: hasFiles,
      request_id: requestId,
    };
    const stored = await insertClaimed(db, raw, { worker, leaseMs }, idempotencyKey);
    const { rawId } = stored;
    if (stored.contentHash !== hash) throw problem('idempotency_conflict');
    onStored();
    if (stored.isNew) {
      const job = { rawId, attempt: 1, sourceSlug, externalId, contentHash: hash, requestId };
      await jobs.run(job, { uploads: hasFiles ? files : undefined });
    }
    // Of one that was processed here just now an end is known, unless its claim was lost to others.
    return answer(db, rawId, stored.isNew ? 'lease_lost' : 'still_processing');
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
    default:
      throw problem(unfinished, {
        detail: `The payload (raw_id ${rawId}) is not done yet. Send the request again in a moment.`,
        headers: { 'retry-after': '5' },
      });
  }
}

/** The recorded reason as an answer. */
function reasonOf(rawId: number, error: RawError | null): Error {
  const { code, message } = error ?? { code: 'internal_error', message: 'It failed.' };
  const known = isErrorCode(code) ? code : 'internal_error';
  return problem(known, { detail: `${message} (raw_id ${rawId})` });
}

function isErrorCode(code: string): code is ErrorCode {
  return Object.hasOwn(errors, code);
}
