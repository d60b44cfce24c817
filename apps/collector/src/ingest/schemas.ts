import { Type } from 'typebox';
import {
  choice,
  idParam,
  nullable,
  rawErrorSchema,
  rawStatusSchema,
  stageOutcomeSchema,
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
export const acceptedSchema = Type.Object({
  raw_id: Type.Integer(),
  status: choice(['pending']),
});

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
  stages: Type.Array(
    Type.Object({
      stage: Type.String(),
      outcome: stageOutcomeSchema,
      started_at: Type.String({ format: 'date-time' }),
      duration_ms: Type.Number(),
    }),
    {
      description:
        'The last run of each stage, in the order of their times. A stage that an attempt has not reached, or did not need, ' +
        'is as an earlier attempt left it.',
    },
  ),
  listing_id: nullable(Type.Integer()),
  model_usage: nullable(
    Type.Object(
      {
        calls: Type.Integer({
          description: 'Requests made; one that several shared counts for each.',
        }),
        input_tokens: Type.Integer(),
        output_tokens: Type.Integer(),
      },
      {
        description:
          'The cost of the payload at the model, in all attempts and with its images. Tokens are 0 if the server does not count them. Of an attempt whose worker was killed or lost its claim it is the cost up to the last renewal.',
      },
    ),
  ),
  created_at: Type.String({ format: 'date-time' }),
  updated_at: Type.String({ format: 'date-time' }),
});
