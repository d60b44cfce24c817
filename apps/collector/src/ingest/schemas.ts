import { Type } from 'typebox';
import {
  idParam,
  modelUsageSchema,
  nullable,
  rawErrorSchema,
  rawStatusSchema,
  stageSchema,
} from '../schemas.ts';

/** The headers of both routes that accept payloads. Contract 4, Answers. */
export const ingestHeaders = Type.Object({
  'idempotency-key': Type.Optional(
    Type.String({
      minLength: 1,
      maxLength: 255,
      pattern: '^[\\x20-\\x7e]+$',
      description:
        'The same key with the same payload within 24 hours gives the same answer, with the headers `Idempotent-Replayed: true` and `Raw-Status`, the present status of the payload. A payload that failed within its request (`/ingest/with-images`) releases its key: sent again, it is accepted anew.',
    }),
  ),
});

/** The answer to a stored payload, the same for each repetition of its key. Contract 4, Answers. */
export const acceptedSchema = Type.Object(
  { raw_id: Type.Integer(), status: Type.Literal('pending') },
  { description: 'It waits in the queue.', examples: [{ raw_id: 4211, status: 'pending' }] },
);

/** The parameters of routes of one payload. */
export const rawParams = Type.Object({ raw_id: idParam });

/** A payload's way through the pipeline. Contract 4, Answers. */
export const rawSchema = Type.Object({
  raw_id: Type.Integer(),
  source_slug: Type.String(),
  external_id: Type.String(),
  status: rawStatusSchema,
  attempts: Type.Integer(),
  error: rawErrorSchema,
  stages: Type.Array(stageSchema, {
    description:
      'The last run of each stage, in the order of their times. A stage that an attempt has not reached, or did not need, ' +
      'is as an earlier attempt left it.',
  }),
  listing_id: nullable(Type.Integer()),
  model_usage: nullable(modelUsageSchema),
  created_at: Type.String({ format: 'date-time' }),
  updated_at: Type.String({ format: 'date-time' }),
});
