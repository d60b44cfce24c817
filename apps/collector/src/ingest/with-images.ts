import { rm } from 'node:fs/promises';
import multipart from '@fastify/multipart';
import { type Server, MIN_BODY_RATE } from '@oselya/kit';
import type { BreakerView } from '@oselya/model';
import type { FastifyRequest } from 'fastify';
import pLimit from 'p-limit';
import { Type } from 'typebox';
import { getCallerKey, CHANGE_REJECTIONS, requireSource } from '../access/guard.ts';
import type { Disk } from '../free-disk-space.ts';
import { problem, problemResponses } from '../errors.ts';
import type { StoreState } from '../images/store.ts';
import type { Metrics } from '../metrics.ts';
import { MAX_IMAGES, MEBIBYTE } from '../schemas.ts';
import { createReadMetadata, formTooLarge, MAX_FORM_BYTES, receiveForm } from './form.ts';
import { processedSchema, type ProcessForm } from './process-form.ts';
import { countRequest, failAsIngest, markReplayed } from './routes.ts';
import { ingestHeaders } from './schemas.ts';
import type { SourceLimit } from './service.ts';

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
    examples: [
      {
        metadata:
          '{"source_slug":"my-notes","external_id":"2","description":"Продам 2-к квартиру"}',
        images: ['kitchen.jpg', 'balcony.jpg'],
      },
    ],
  },
);

/**
 * Registers `POST /ingest/with-images`, in its own scope because of its type of body. Forms are rejected before the body
 * is read where possible, or at the field `metadata`, which counts against the rate of its source. Specification 001,
 * Endpoints and Behaviour rules, 3; Contract 4, Answers.
 * @param deps.temporary Returns the folder of temporary files.
 * @param deps.atOnce How many payloads are processed at once.
 * @param deps.maxBytes The largest request.
 */
export async function withImagesRoutes(
  app: Server,
  deps: {
    processForm: ProcessForm;
    limit: SourceLimit;
    breaker: Pick<BreakerView, 'state'>;
    imageStore: Pick<StoreState, 'isUnavailable'>;
    disk: Disk;
    temporary: () => string;
    atOnce: number;
    maxBytes?: number;
    metrics: Pick<Metrics, 'ingestRequests'>;
  },
): Promise<void> {
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
    if (imageStore.isUnavailable) throw problem('image_store_unavailable', { detail: STORE_AWAY });
    await disk.requireFree(announced);
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
          ...problemResponses(...PROBLEMS),
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
      return inPlace(getCallerKey(request), async () => {
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
            reply.headers(await limit(payload.source_slug, getCallerKey(request)));
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

const PROBLEMS = [
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
  'idempotency_conflict',
  'still_processing',
  'not_a_listing',
  'model_failed',
  'stage_timed_out',
  'interrupted',
  'lease_lost',
] as const;

const MODEL_AWAY =
  'The model server has failed several times and is not called for a while. Nothing was stored: send it again.';

const STORE_AWAY = 'The image store cannot be used at present. Nothing was stored: send it again.';

const DESCRIPTION = `A form has to come with no less than ${MIN_BODY_RATE.bytes / MEBIBYTE} MB in each
${MIN_BODY_RATE.milliseconds / 60_000} minutes until it is complete, half a megabit a second. One that comes more slowly, or stalls, is
408 \`request_too_slow\`, and nothing of it is stored. One API key, or address without one, may have three times
COLLECTOR_UPLOADS forms at once, and is 503 \`uploads_busy\` past those.

The pipeline runs before the answer, which can take minutes. A payload that ends
\`invalid\` is 422 with the reason. The problem of a payload that was stored has its \`raw_id\`. One that failed is 502 where the model did, 503 where it can be tried again
at once (a stage took too long, the image store failed, or the process ended), and else 500; it has to be sent again,
since its pictures are not kept. The same \`Idempotency-Key\` with the same payload and pictures within 24 hours gives
the outcome of the earlier one, unless that one failed.`;

/** How many forms are received or wait for each payload that is processed, in all and of one caller. */
const RECEIVED_FOR_EACH = 4;
const RECEIVED_OF_ONE = 3;

/**
 * Bounds the forms that are received or processed. A quarter of the places is kept from each caller for others.
 * @param atOnce How many payloads are processed at once.
 * @returns Rejects with `uploads_busy` if no place is left, in all or for the caller.
 */
export function createPlaces(atOnce: number) {
  const callers: string[] = [];
  return async <Value>(caller: string, work: () => Promise<Value>): Promise<Value> => {
    if (callers.length >= RECEIVED_FOR_EACH * atOnce) throw problem('uploads_busy');
    const max = RECEIVED_OF_ONE * atOnce;
    if (callers.filter((other) => other === caller).length >= max) {
      const detail = `One API key, or address without one, may have ${max} payloads with images (three times COLLECTOR_UPLOADS) on their way or being processed. Send it again when one of yours has been answered.`;
      throw problem('uploads_busy', { detail });
    }
    callers.push(caller);
    try {
      return await work();
    } finally {
      callers.splice(callers.indexOf(caller), 1);
    }
  };
}
