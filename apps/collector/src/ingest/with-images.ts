import { rm } from 'node:fs/promises';
import multipart from '@fastify/multipart';
import { isDatabaseOutage } from '@oselya/db';
import { type Server, SLOWEST_BODY } from '@oselya/kit';
import type { BreakerView } from '@oselya/model';
import type { FastifyRequest } from 'fastify';
import { type Kysely, sql } from 'kysely';
import pLimit from 'p-limit';
import { type Static, Type } from 'typebox';
import { callerOf, CHANGE_REJECTIONS, requireSource } from '../access/guard.ts';
import type { Disk } from '../disk.ts';
import { type ErrorCode, errors, problem, problemAnswers } from '../errors.ts';
import type { StoreState } from '../images/store.ts';
import type { Metrics } from '../metrics.ts';
import type { JobInput } from '../pipeline/context.ts';
import type { InlineJobs } from '../queue/inline.ts';
import { processName } from '../queue/worker.ts';
import { MAX_IMAGES, MEBIBYTE } from '../schemas.ts';
import type { RawError, RawStatus, Tables, UploadOutcome } from '../tables.ts';
import {
  createReadMetadata,
  type Form,
  formTooLarge,
  MAX_FORM_BYTES,
  receiveForm,
} from './form.ts';
import { contentHash, type Payload } from './payload.ts';
import { countRequest, failAsIngest, markReplayed } from './routes.ts';
import { ingestHeaders } from './schemas.ts';
import type { Ingest, SourceLimit } from './service.ts';
import type { StoredRaw } from './store.ts';

const EXAMPLE: Payload = {
  source_slug: 'my-notes',
  external_id: '2',
  description: 'Продам 2-к квартиру на Сихові, 54 м², 5/9 поверх. Ціна 62 000 дол.',
};

/** The form, for the OpenAPI document: it is read while it comes, so it is not validated as a whole. */
const formSchema = Type.Object(
  {
    metadata: Type.String({
      contentMediaType: 'application/json',
      description:
        'The payload: JSON of `PayloadSchema`. If it is sent before the files, it can be rejected before they are read.',
    }),
    images: Type.Optional(
      Type.Array(Type.String({ format: 'binary' }), {
        maxItems: MAX_IMAGES,
        description:
          'JPEG, PNG, WebP, AVIF or GIF, at most 50 MB each and 512 MB in all. The listing then has these images; without any it has those of `image_urls`.',
      }),
    ),
  },
  {
    additionalProperties: false,
    examples: [{ metadata: JSON.stringify(EXAMPLE), images: ['kitchen.jpg', 'balcony.jpg'] }],
  },
);

/** The answer to a payload that was processed within its request. Contract 4, Answers. */
const processedSchema = Type.Object({
  raw_id: Type.Integer(),
  status: Type.Literal('completed'),
  listing_id: Type.Integer(),
  images: Type.Array(
    Type.Union([
      Type.Object({
        sha256: Type.String(),
        width: Type.Integer(),
        height: Type.Integer(),
        duplicate: Type.Boolean({ description: 'Whether these bytes were stored before.' }),
      }),
      Type.Object({ error: Type.String({ description: 'Why this image cannot be used.' }) }),
    ]),
    {
      description: 'In their order. Empty if a newer payload has changed the listing since.',
    },
  ),
});

type Processed = Static<typeof processedSchema>;

/** The dependencies of the route. */
export type WithImagesDeps = {
  processForm: ProcessForm;
  limit: SourceLimit;
  breaker: Pick<BreakerView, 'state'>;
  imageStore: Pick<StoreState, 'isAway'>;
  disk: Disk;
  /** Returns the folder of temporary files. */
  temporary: () => string;
  /** How many payloads are processed at once. */
  atOnce: number;
  /** The largest request in bytes; {@link MAX_FORM_BYTES} unless set. */
  maxBytes?: number;
  metrics: Pick<Metrics, 'ingestRequests'>;
};

/**
 * Registers `POST /ingest/with-images`, in its own scope because of its type of body. Forms are rejected before the body
 * is read where possible, or at the field `metadata`, which counts against the rate of its source. Specification 001,
 * Endpoints and Behaviour rules, 3; Contract 4, Answers.
 */
export async function withImagesRoutes(app: Server, deps: WithImagesDeps): Promise<void> {
  const { processForm, limit, breaker, imageStore, disk, temporary, atOnce, metrics } = deps;
  const { maxBytes = MAX_FORM_BYTES } = deps;
  const readMetadata = createReadMetadata(app);
  const inPlace = createPlaces(atOnce);
  const processing = pLimit(atOnce);
  const sources = new WeakMap<FastifyRequest, string>();
  const accepted = new WeakSet<FastifyRequest>();

  app.removeAllContentTypeParsers();
  await app.register(multipart);
  // A body of any other type is not read; the handler rejects it.
  app.addContentTypeParser('*', (_request, _payload, done) => done(null));

  async function rejectEarly(request: FastifyRequest): Promise<void> {
    if (!request.isMultipart()) {
      const detail = 'Send multipart/form-data with a field "metadata" and files "images".';
      throw problem('unsupported_media_type', { detail });
    }
    const announced = Number(request.headers['content-length'] ?? 0);
    if (announced > maxBytes) throw formTooLarge(maxBytes, 'as it announces itself');
    if (breaker.state === 'open') throw problem('model_unavailable', { detail: MODEL_AWAY });
    if (imageStore.isAway) throw problem('image_store_unavailable', { detail: STORE_AWAY });
    await disk.need(announced);
  }

  app.post(
    '/ingest/with-images',
    {
      config: { scope: 'ingest' },
      schema: {
        tags: ['ingest'],
        summary: 'Accept a payload with its images, and answer when it is processed',
        description: DESCRIPTION,
        consumes: ['multipart/form-data'],
        headers: ingestHeaders,
        body: formSchema,
        response: {
          200: processedSchema,
          ...problemAnswers(...NOT_STORED, ...EARLIER, ...ENDED),
        },
      },
      preValidation: (request, _reply, done) => {
        // The handler reads the form; this stands in for it where Fastify would validate it.
        request.body = { metadata: '' };
        done();
      },
      errorHandler: failAsIngest,
      onResponse: async (request, reply) => {
        if (!accepted.has(request)) countRequest(metrics, reply, sources.get(request));
      },
    },
    async (request, reply) => {
      await rejectEarly(request);
      return inPlace(callerOf(request), async () => {
        await using received = new AsyncDisposableStack();
        const form = await receiveForm(request, {
          disk,
          maxBytes,
          temporary,
          onFile: ({ path }) => received.defer(() => rm(path, { force: true })),
          async readMetadata(content) {
            const payload = await readMetadata(request, content);
            requireSource(request, payload.source_slug);
            sources.set(request, payload.source_slug);
            // Past the rate the images are not received.
            reply.headers(await limit(payload.source_slug, callerOf(request)));
            return payload;
          },
        });
        // The connection is idle while the payload waits and is processed.
        request.raw.setTimeout(0);
        return await processing(() =>
          processForm(
            { ...form, requestId: request.id },
            request.headers['idempotency-key'],
            (stored) => {
              markReplayed(reply, stored);
              accepted.add(request);
              countRequest(metrics, { statusCode: 200 }, form.payload.source_slug);
            },
          ),
        );
      });
    },
  );
}

/** Answers to payloads that were not stored, to repeated keys, and to payloads that ended badly. */
const NOT_STORED = [
  400,
  ...CHANGE_REJECTIONS,
  'request_too_slow',
  413,
  415,
  422,
  429,
  'ingest_failed',
  'uploads_busy',
  'model_unavailable',
  'image_store_unavailable',
  'disk_low',
] as const;
const EARLIER = ['idempotency_conflict', 'still_processing'] as const;
const ENDED = [
  'not_a_listing',
  'model_failed',
  'stage_timed_out',
  'interrupted',
  'lease_lost',
] as const;

const MODEL_AWAY =
  'The model server has failed several times and is not called for a while. Nothing was stored: send it again.';

const STORE_AWAY = 'The image store cannot be used at present. Nothing was stored: send it again.';

const DESCRIPTION = `A form has to come with no less than ${SLOWEST_BODY.bytes / MEBIBYTE} MB in each
${SLOWEST_BODY.milliseconds / 60_000} minutes until it is complete, half a megabit a second. One that comes more slowly, or stalls, is
408 \`request_too_slow\`, and nothing of it is stored. One API key, or address without one, may have three times
COLLECTOR_UPLOADS forms at once, and is 503 \`uploads_busy\` past those.

The pipeline runs before the answer, which can take minutes. A payload that ends
\`invalid\` is 422 with the reason. The problem of a payload that was stored has its \`raw_id\`. One that failed is 502 where the model did, 503 where it can be tried again
at once (a stage took too long, the image store failed, or the process ended), and else 500; it has to be sent again,
since its pictures are not kept. The same \`Idempotency-Key\` with the same payload and pictures within 24 hours gives
the outcome of the earlier one, unless that one failed.`;

/** How many forms are received or wait for each payload that is processed. */
const RECEIVED_FOR_EACH = 4;

/** How many of these one caller may have. */
const RECEIVED_OF_ONE = 3;

/** Does the work of a caller's request in a place. */
type InPlace = <Value>(caller: string, work: () => Promise<Value>) => Promise<Value>;

/**
 * Bounds the forms that are received or processed. A quarter of the places is kept from each caller for others.
 * @param atOnce How many payloads are processed at once.
 * @returns Rejects with `uploads_busy` if no place is left, in all or for the caller.
 */
export function createPlaces(atOnce: number): InPlace {
  const taken = new Map<string, number>();
  let all = 0;
  return async (caller, work) => {
    if (all >= RECEIVED_FOR_EACH * atOnce) throw problem('uploads_busy');
    const own = taken.get(caller) ?? 0;
    if (own >= RECEIVED_OF_ONE * atOnce) {
      throw problem('uploads_busy', { detail: tooManyOfOne(RECEIVED_OF_ONE * atOnce) });
    }
    taken.set(caller, own + 1);
    all += 1;
    try {
      return await work();
    } finally {
      const left = (taken.get(caller) ?? 1) - 1;
      if (left === 0) taken.delete(caller);
      else taken.set(caller, left);
      all -= 1;
    }
  };
}

function tooManyOfOne(most: number): string {
  return `One API key, or address without one, may have ${most} payloads with images (three times COLLECTOR_UPLOADS) on their way or being processed. Send it again when one of yours has been answered.`;
}

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
  onStored: (stored: Pick<StoredRaw, 'isNew' | 'status'>) => void,
) => Promise<Processed>;

/** Creates a `ProcessForm`; a claim lasts `leaseMs` without a renewal. */
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
      // The outcome is known, unless the claim was lost.
      return await answer(db, rawId, 'lease_lost');
    } catch (error) {
      // An outage that prevented writing the outcome also prevents reading it.
      if (!isDatabaseOutage(error) || (outcome !== 'lost' && outcome !== 'postponed')) throw error;
      const detail = `The database was away for too long: send the payload again (raw_id ${rawId}).`;
      throw problem('interrupted', { detail, members: { raw_id: rawId }, cause: error });
    }
  };
}

/** @param unfinished The error of a payload that has not ended. */
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
        detail: `The payload (raw_id ${rawId}) is back in the queue, and is processed when the model and the image store answer.`,
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

/** The outcome of a payload: `error` if it ended badly, `listing_id` if it is `completed`. */
type Outcome = {
  status: RawStatus;
  error: RawError | null;
  listing_id: number | null;
  images: UploadOutcome[];
};

/**
 * Returns the outcome of a payload. Its images are the uploaded ones; without any they are those of the listing, as long as
 * that was made from this payload or an equal one.
 */
async function findOutcome(db: Kysely<Tables>, rawId: number): Promise<Outcome | undefined> {
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
  return rows[0];
}
