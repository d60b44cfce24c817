import { rm } from 'node:fs/promises';
import multipart from '@fastify/multipart';
import { type Server, MIN_BODY_RATE } from '@oselya/kit';
import type { BreakerView } from '@oselya/model';
import type { FastifyRequest } from 'fastify';
import pLimit from 'p-limit';
import { Type } from 'typebox';
import { getCallerKey, CHANGE_REJECTIONS, requireSource } from '../access/guard.ts';
import type { SourceLimit } from '../access/source-limit.ts';
import type { Disk } from '../free-disk-space.ts';
import { problem, problemResponses } from '../errors.ts';
import type { StoreState } from '../images/store.ts';
import type { Metrics } from '../metrics.ts';
import { MAX_IMAGES, MEBIBYTE } from '../schemas.ts';
import { createMetadataParser, createFormSizeError, MAX_FORM_BYTES, receiveForm } from './form.ts';
import { processedFormSchema, type ProcessForm } from './process-form.ts';
import { countRequest, ingestHeaders, mapIngestError, markReplayed } from './routes.ts';

/** Schema of the form for the OpenAPI document. The handler validates the form itself. */
const formSchema = Type.Object(
  {
    metadata: Type.String({
      contentMediaType: 'application/json',
      description:
        'The payload as JSON of `PayloadSchema`. A payload that is sent before the files can be rejected before the files are read.',
    }),
    images: Type.Optional(
      Type.Array(Type.String({ format: 'binary' }), {
        maxItems: MAX_IMAGES,
        description:
          'JPEG, PNG, WebP, AVIF or GIF files, at most 50 MiB each and 512 MiB in total. They become the images of the listing. Without files, the listing has the images of `image_urls`.',
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

const DESCRIPTION = `A form must arrive with at least ${MIN_BODY_RATE.bytes / MEBIBYTE} MiB in each
${MIN_BODY_RATE.milliseconds / 60_000} minutes until it is complete, half a megabit a second. A slower form is 408 \`request_too_slow\`,
and nothing of the form is stored. One API key, or one address without a key, may have three times COLLECTOR_UPLOADS
forms in progress. A further form is 503 \`uploads_busy\`.

The pipeline runs before the response, which can take minutes. A payload with the status \`invalid\` gets 422 with the
reason. The problem of a stored payload has its \`raw_id\`. A failed payload gets 502 if the model failed, 503 if it can be
sent again immediately (a stage took too long, the image store failed, or the process ended), and 500 otherwise. A failed
payload must be sent again, since its images are not kept. The same \`Idempotency-Key\` with the same payload and images within 24 hours returns the
earlier outcome, unless the earlier payload failed.`;

const PROBLEM_CODES = [
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

/**
 * Registers `POST /ingest/with-images` in a separate Fastify scope, because of its content type. The route rejects a
 * form as early as possible: before its body, or at the field `metadata`. Specification 001, Endpoints and Behaviour
 * rules, 3; Contract 4, Answers.
 * @param deps.getTemporaryFolder Returns the folder of temporary files.
 * @param deps.concurrency Maximum number of payloads that are processed concurrently.
 */
export async function registerUploadRoutes(
  app: Server,
  deps: {
    processForm: ProcessForm;
    limit: SourceLimit;
    breaker: Pick<BreakerView, 'state'>;
    imageStore: Pick<StoreState, 'isUnavailable'>;
    disk: Disk;
    getTemporaryFolder: () => string;
    concurrency: number;
    maxBytes?: number;
    metrics: Pick<Metrics, 'ingestRequests'>;
  },
): Promise<void> {
  const {
    processForm,
    limit,
    breaker,
    imageStore,
    disk,
    getTemporaryFolder,
    concurrency,
    metrics,
  } = deps;
  const { maxBytes = MAX_FORM_BYTES } = deps;
  const parseMetadata = createMetadataParser(app);
  const runWithinFormLimit = createFormLimit(concurrency);
  const limitProcessing = pLimit(concurrency);
  const sourcesByRequest = new WeakMap<FastifyRequest, string>();
  const acceptedRequests = new WeakSet<FastifyRequest>();

  app.removeAllContentTypeParsers();
  await app.register(multipart);
  // The handler rejects other content types without reading their bodies.
  app.addContentTypeParser('*', (_request, _payload, done) => done(null));

  async function rejectEarly(request: FastifyRequest): Promise<void> {
    if (!request.isMultipart()) {
      const detail = 'Send multipart/form-data with a field "metadata" and files "images".';
      throw problem('unsupported_media_type', { detail });
    }
    const declaredBytes = Number(request.headers['content-length'] ?? 0);
    if (declaredBytes > maxBytes) throw createFormSizeError(maxBytes, 'by its Content-Length');
    if (breaker.state === 'open') {
      const detail =
        'The model server has failed several times and is not called for a while. Nothing was stored: send the payload again.';
      throw problem('model_unavailable', { detail });
    }
    if (imageStore.isUnavailable) {
      const detail =
        'The image store cannot be used at present. Nothing was stored: send the payload again.';
      throw problem('image_store_unavailable', { detail });
    }
    await disk.requireFree(declaredBytes);
  }

  app.post(
    '/ingest/with-images',
    {
      config: { scope: 'ingest' },
      schema: {
        tags: ['ingest'],
        summary: 'Accept a payload with its images, and respond when the payload is processed',
        description: DESCRIPTION,
        consumes: ['multipart/form-data'],
        headers: ingestHeaders,
        body: formSchema,
        response: { 200: processedFormSchema, ...problemResponses(...PROBLEM_CODES) },
      },
      preValidation: (request, _reply, done) => {
        // Fastify validates this placeholder; the handler reads the form.
        request.body = { metadata: '' };
        done();
      },
      errorHandler: mapIngestError,
      onResponse: async (request, reply) => {
        if (!acceptedRequests.has(request))
          countRequest(metrics, reply, sourcesByRequest.get(request));
      },
    },
    async (request, reply) => {
      await rejectEarly(request);
      const caller = getCallerKey(request);
      return runWithinFormLimit(caller, async () => {
        await using temporaryFiles = new AsyncDisposableStack();
        const form = await receiveForm(request, {
          disk,
          maxBytes,
          getTemporaryFolder,
          onFile: ({ path }) => temporaryFiles.defer(() => rm(path, { force: true })),
          async readMetadata(content) {
            const payload = await parseMetadata(request, content);
            requireSource(request, payload.source_slug);
            sourcesByRequest.set(request, payload.source_slug);
            reply.headers(await limit(payload.source_slug, caller));
            return payload;
          },
        });
        // The connection is idle while the payload waits and is processed, so it must not time out.
        request.raw.setTimeout(0);
        return await limitProcessing(() =>
          processForm(
            { ...form, requestId: request.id },
            request.headers['idempotency-key'],
            (storedRecord) => {
              markReplayed(reply, storedRecord);
              acceptedRequests.add(request);
              countRequest(metrics, { statusCode: 200 }, form.payload.source_slug);
            },
          ),
        );
      });
    },
  );
}

/** Maximum number of forms in progress, as a multiple of the concurrency. */
const MAX_FORMS_PER_PAYLOAD = 4;
/** The same limit for the forms of one caller. */
const MAX_FORMS_PER_CALLER = 3;

/**
 * Creates the limit on forms in progress. No caller may use the whole limit.
 * @param concurrency Maximum number of payloads that are processed concurrently.
 * @returns A function that runs work, or rejects with `uploads_busy`.
 */
export function createFormLimit(concurrency: number) {
  const activeCallers: string[] = [];
  return async <Value>(caller: string, work: () => Promise<Value>): Promise<Value> => {
    if (activeCallers.length >= MAX_FORMS_PER_PAYLOAD * concurrency) throw problem('uploads_busy');
    const maxFormsOfCaller = MAX_FORMS_PER_CALLER * concurrency;
    if (
      activeCallers.filter((activeCaller) => activeCaller === caller).length >= maxFormsOfCaller
    ) {
      const detail = `One API key, or one address without a key, may have ${maxFormsOfCaller} payloads with images (three times COLLECTOR_UPLOADS) in progress. Wait for one of their responses, then send the payload again.`;
      throw problem('uploads_busy', { detail });
    }
    activeCallers.push(caller);
    try {
      return await work();
    } finally {
      activeCallers.splice(activeCallers.indexOf(caller), 1);
    }
  };
}
