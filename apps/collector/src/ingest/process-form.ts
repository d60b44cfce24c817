import { isDatabaseOutage } from '@oselya/db';
import { type Kysely, sql } from 'kysely';
import { type Static, Type } from 'typebox';
import { type ErrorCode, errors, problem } from '../errors.ts';
import type { JobInput } from '../pipeline/context.ts';
import type { JobOutcomeStatus } from '../queue/job-types.ts';
import type { InlineJobs } from '../queue/inline.ts';
import { createClaimantName } from '../queue/worker.ts';
import { uploadOutcomeSchema } from '../schemas.ts';
import type { RawError, RawStatus, Tables, UploadOutcome } from '../tables.ts';
import type { Form } from './form.ts';
import { contentHash } from './payload.ts';
import type { Ingest } from './service.ts';
import type { StoredRaw } from './store.ts';

/** The answer to a payload that was processed within its request. Contract 4, Answers. */
export const processedSchema = Type.Object({
  raw_id: Type.Integer(),
  status: Type.Literal('completed'),
  listing_id: Type.Integer(),
  images: Type.Array(uploadOutcomeSchema, {
    description: 'In their order. Empty if a newer payload has changed the listing since.',
  }),
});

/**
 * Stores a payload with its images, processes it, and returns the outcome; of a repeated idempotency key the outcome of
 * the earlier payload. The images are part of the payload: equal text with other images is another payload.
 * @param onStored Called when the payload is committed, or was before.
 * @throws ProblemError `idempotency_conflict`, `still_processing`, and the reason of a payload that ended `invalid` or
 *   `failed`.
 */
export type ProcessForm = (
  form: Form & { requestId?: string },
  idempotencyKey: string | undefined,
  onStored: (stored: StoredRaw) => void,
) => Promise<Static<typeof processedSchema>>;

/** Creates a `ProcessForm`; a claim lasts `leaseMs` without a renewal. */
export function createProcessForm(deps: {
  db: Kysely<Tables>;
  store: Ingest['store'];
  jobs: Pick<InlineJobs<JobInput>, 'run'>;
  leaseMs: number;
}): ProcessForm {
  const { db, store, jobs, leaseMs } = deps;
  const worker = createClaimantName('inline');

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
    let outcome: JobOutcomeStatus | undefined;
    if (isNew) {
      const job = { rawId, attempt: 1, sourceSlug, externalId, contentHash: hash, requestId };
      const uploads = hasFiles ? files : undefined;
      outcome = await jobs.run(job, { input: { uploads, canWait: false } });
    }
    const {
      status,
      error,
      listing_id: listingId,
      images,
    } = await findOutcome(db, rawId).catch((cause: unknown) => {
      // An outage that prevents writing the outcome also prevents reading it.
      const isLost = outcome === 'lost' || outcome === 'postponed';
      if (!isLost || !isDatabaseOutage(cause)) throw cause;
      const detail = 'The database was not available for too long: send the payload again.';
      throw rejected(rawId, 'interrupted', detail, { cause });
    });
    if (status === 'completed') return { raw_id: rawId, status, listing_id: listingId, images };
    if (error !== null && status !== 'pending' && status !== 'processing') {
      throw rejected(rawId, isErrorCode(error.code) ? error.code : 'internal_error', error.message);
    }
    if (isNew && status === 'pending') {
      const detail = 'It is back in the queue, and is processed when what it needs is available.';
      throw rejected(rawId, 'interrupted', detail);
    }
    const detail = 'The payload is not done yet. Send the request again in a moment.';
    throw rejected(rawId, isNew ? 'lease_lost' : 'still_processing', detail, {
      headers: { 'retry-after': '5' },
    });
  };
}

function rejected(
  rawId: number,
  code: ErrorCode,
  detail: string,
  details: { headers?: Record<string, string>; cause?: unknown } = {},
): Error {
  return problem(code, {
    ...details,
    detail: `${detail} (raw_id ${rawId})`,
    members: { raw_id: rawId },
  });
}

function isErrorCode(code: string): code is ErrorCode {
  return Object.hasOwn(errors, code);
}

/** The outcome of a payload: `error` if it ended badly, `listing_id` if it is `completed`. */
type Outcome = { images: UploadOutcome[] } & (
  | { status: 'completed'; error: null; listing_id: number }
  | { status: Exclude<RawStatus, 'completed'>; error: RawError | null; listing_id: number | null }
);

/**
 * Returns the outcome of a payload. Its images are the uploaded ones; without any they are those of the listing, as long as
 * that was made from this payload or an equal one.
 */
async function findOutcome(db: Kysely<Tables>, rawId: number): Promise<Outcome> {
  const { rows } = await sql<Outcome>`
    select status, error, listing_id,
      case when jsonb_array_length(coalesce(uploads, '[]')) > 0 then uploads else coalesce((
        select jsonb_agg(
          case when images.sha256 is null
            then jsonb_build_object('error', listing_images.error)
            else jsonb_build_object('sha256', images.sha256, 'width', images.width,
              'height', images.height, 'duplicate', images.created_at < raw_data.created_at)
          end order by listing_images.position)
        from property_listings
        join listing_payloads using (source_slug, external_id)
        join listing_images on listing_images.listing_id = property_listings.id
        left join images on images.sha256 = listing_images.sha256
        where property_listings.id = raw_data.listing_id
          and (listing_payloads.raw_id = raw_data.id
            or listing_payloads.completed_hash = raw_data.content_hash)), '[]') end as images
    from raw_data where id = ${rawId}`.execute(db);
  const [outcome] = rows;
  if (outcome === undefined) throw new Error(`Raw record ${rawId} is missing`);
  return outcome;
}
