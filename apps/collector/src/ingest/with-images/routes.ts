import { rm } from 'node:fs/promises';
import multipart from '@fastify/multipart';
import { type Server, SLOWEST_BODY } from '@oselya/kit';
import type { BreakerView } from '@oselya/model';
import type { FastifyRequest } from 'fastify';
import pLimit from 'p-limit';
import { CHANGE_REJECTIONS, requireSource, callerOf } from '../../access/guard.ts';
import type { Disk } from '../../disk.ts';
import type { StoreState } from '../../images/store.ts';
import { problem, problemAnswers } from '../../errors.ts';
import { MEBIBYTE } from '../../schemas.ts';
import type { Metrics } from '../../metrics.ts';
import { countRequest } from '../count-request.ts';
import { failAsIngest } from '../failures.ts';
import type { SourceLimit } from '../limit-source.ts';
import { markReplayed } from '../replayed.ts';
import { ingestHeaders } from '../schemas.ts';
import { createReadMetadata } from './metadata.ts';
import { createPlaces } from './places.ts';
import { formTooLarge, MAX_FORM_BYTES, receiveForm } from './receive-form.ts';
import { formSchema, processedSchema } from './schemas.ts';
import type { ProcessForm } from './service.ts';

/** What the route works with. */
export type WithImagesDeps = {
  processForm: ProcessForm;
  limit: SourceLimit;
  breaker: Pick<BreakerView, 'state'>;
  imageStore: Pick<StoreState, 'isAway'>;
  disk: Disk;
  /** Gives where temporary files go. */
  temporary: () => string;
  /** How many payloads are processed at once: each holds a place at the model. */
  atOnce: number;
  /** All that one request may send; {@link MAX_FORM_BYTES} unless told. */
  maxBytes?: number;
  metrics: Pick<Metrics, 'ingestRequests'>;
};

/**
 * `POST /ingest/with-images`, in a scope of its own, because it reads another type of body than all else.
 * What can be refused is refused before the body is read, or at its field `metadata`, which is read as soon
 * as it comes: so a form counts against its source's rate even if its files turn out bad. Specification 001,
 * Endpoints and Behaviour rules, 3; Contract 4, Answers.
 */
export async function withImagesRoutes(app: Server, deps: WithImagesDeps): Promise<void> {
  const { processForm, limit, breaker, imageStore, disk, temporary, atOnce, metrics } = deps;
  const { maxBytes = MAX_FORM_BYTES } = deps;
  const readMetadata = createReadMetadata(app);
  const inPlace = createPlaces(atOnce);
  const turns = pLimit(atOnce);
  const sources = new WeakMap<FastifyRequest, string>();
  const accepted = new WeakSet<FastifyRequest>();

  app.removeAllContentTypeParsers();
  await app.register(multipart);
  // Of any other type the body is left alone, and the handler says which one is taken.
  app.addContentTypeParser('*', (_request, _payload, done) => done(null));

  async function refuseEarly(request: FastifyRequest): Promise<void> {
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
        summary: 'Take a payload in with its pictures, and answer when it is processed',
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
      await refuseEarly(request);
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
            // Past the rate the pictures that follow are not taken, nor is a place held while they come.
            reply.headers(await limit(payload.source_slug, callerOf(request)));
            return payload;
          },
        });
        // Nothing moves on the connection while others are processed and while it is, however long that takes.
        request.raw.setTimeout(0);
        return await turns(() =>
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

/** The answers to what was not stored, to a key that came before, and to what ended otherwise than well. */
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
  'The model server is left alone for a while after several failures. Nothing was stored: send it again.';

const STORE_AWAY = 'The image store cannot be used at present. Nothing was stored: send it again.';

const DESCRIPTION = `A form has to come at no less than ${SLOWEST_BODY.bytes / MEBIBYTE} MB in each
${SLOWEST_BODY.milliseconds / 60_000} minutes until it is whole, half a megabit a second. One that comes more slowly, or stalls, is
408 \`request_too_slow\`, and nothing of it is stored. One API key, or address without one, may have three times
COLLECTOR_UPLOADS forms at once, and is 503 \`uploads_busy\` past those.

The pipeline runs before the answer, so this can take minutes. A payload that ends
\`invalid\` is 422 with the reason. The problem of a payload that was stored has its \`raw_id\`. One that failed is 502 where the model did, 503 where it can be tried again
at once (a stage took too long, the image store failed, or the process ended), and else 500; it has to be sent again,
since its pictures are not kept. The same \`Idempotency-Key\` with the same payload and pictures within 24 hours gives
the outcome of the earlier one, unless that one failed.`;
