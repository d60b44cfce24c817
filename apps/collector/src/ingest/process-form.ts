import { isDatabaseOutage } from '@oselya/db';
import { type Kysely, sql } from 'kysely';
import { type Static, Type } from 'typebox';
import { type ErrorCode, errors, problem } from '../errors.ts';
import type { JobInput } from '../pipeline/context.ts';
import type { Job } from '../queue/job-types.ts';
import { createClaimantName } from '../queue/worker.ts';
import { uploadOutcomeSchema } from '../schemas.ts';
import type { RawError, RawStatus, Tables, UploadOutcome } from '../tables.ts';
import type { Form } from './form.ts';
import { hashContent } from './payload.ts';
import type { Ingest, StoredRawRecord } from './store.ts';

/** Response to a payload that was processed within its request. Contract 4, Answers. */
export const processedFormSchema = Type.Object({
  raw_id: Type.Integer(),
  status: Type.Literal('completed'),
  listing_id: Type.Integer(),
  images: Type.Array(uploadOutcomeSchema, {
    description:
      'Outcomes of the images, in order. Empty if a newer payload of the listing has arrived in the meantime.',
  }),
});

export type ProcessForm = ReturnType<typeof createProcessForm>;

/** Creates the function that processes a form within its request. */
export function createProcessForm(deps: {
  db: Kysely<Tables>;
  store: Ingest['store'];
  run: (job: Job, input: JobInput) => Promise<unknown>;
  leaseMs: number;
}) {
  const { db, store, run, leaseMs } = deps;
  const claimantName = createClaimantName('inline');

  /**
   * Stores a form, processes it, and returns the outcome. A repeated idempotency key returns the earlier outcome.
   * Identical payloads with different images are different forms.
   * @param onStored Called when the payload is committed, or when its earlier raw record is found.
   * @throws ProblemError `idempotency_conflict`, `still_processing`, `interrupted`, `lease_lost`, or the error of a
   *   payload that ended `invalid` or `failed`; database errors.
   */
  return async (
    { payload, files, requestId }: Form & { requestId?: string },
    idempotencyKey: string | undefined,
    onStored: (storedRecord: StoredRawRecord) => void,
  ): Promise<Static<typeof processedFormSchema>> => {
    const { source_slug: sourceSlug, external_id: externalId } = payload;
    const hasUploads = files.length > 0;
    const images = files.map(({ sha256 }) => sha256);
    const hash = hashContent(hasUploads ? { payload, images } : payload);
    const storedRecord = await store({
      source_slug: sourceSlug,
      external_id: externalId,
      payload: JSON.stringify(payload),
      content_hash: hash,
      idempotency_key: idempotencyKey,
      request_id: requestId,
      claim: { worker: claimantName, leaseMs, hasUploads },
    });
    onStored(storedRecord);
    const { id: rawId, isNew } = storedRecord;
    if (isNew) {
      const job = { rawId, attempt: 1, sourceSlug, externalId, contentHash: hash, requestId };
      const uploads = hasUploads ? files : undefined;
      await run(job, { uploads, canWait: false });
    }
    const outcome = await findOutcome(db, rawId).catch((cause: unknown) => {
      // An outage that prevents writing the outcome also prevents reading it.
      if (!isNew || !isDatabaseOutage(cause)) throw cause;
      const detail = 'The database was not available for too long: send the payload again.';
      throw createError(rawId, 'interrupted', detail, { cause });
    });
    const { status, error, listing_id: listingId } = outcome;
    if (status === 'completed') {
      return { raw_id: rawId, status, listing_id: listingId, images: outcome.images };
    }
    if (error !== null && status !== 'pending' && status !== 'processing') {
      const code = Object.hasOwn(errors, error.code) ? (error.code as ErrorCode) : 'internal_error';
      throw createError(rawId, code, error.message);
    }
    if (isNew && status === 'pending') {
      const detail =
        'The payload is back in the queue, and is processed when the required services are available.';
      throw createError(rawId, 'interrupted', detail);
    }
    const detail = 'The payload is still being processed. Send the request again in a moment.';
    throw createError(rawId, isNew ? 'lease_lost' : 'still_processing', detail, {
      headers: { 'retry-after': '5' },
    });
  };
}

function createError(
  rawId: number,
  code: ErrorCode,
  detail: string,
  problemOptions: { headers?: Record<string, string>; cause?: unknown } = {},
): Error {
  const members = { raw_id: rawId };
  return problem(code, { ...problemOptions, detail: `${detail} (raw_id ${rawId})`, members });
}

type Outcome = { images: UploadOutcome[] } & (
  | { status: 'completed'; error: null; listing_id: number }
  | { status: Exclude<RawStatus, 'completed'>; error: RawError | null; listing_id: number | null }
);

/**
 * Returns the outcomes of a payload and of its images. Without uploads, the images are those of the listing, if its
 * latest payload is this payload or has the same content.
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
