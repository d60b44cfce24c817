import { type Static, Type } from 'typebox';
import {
  idParam,
  choice,
  nullable,
  rawErrorSchema,
  rawStatusSchema,
  stageOutcomeSchema,
} from '../schemas.ts';

/** The headers of a request that brings a payload, on both routes. Contract 4, Answers. */
export const ingestHeaders = Type.Object({
  'idempotency-key': Type.Optional(
    Type.String({
      minLength: 1,
      maxLength: 255,
      pattern: '^[\\x20-\\x7e]+$',
      description:
        'The same key with the same payload within 24 hours gives the same answer, with the headers `Idempotent-Replayed: true` and `Raw-Status`: how the payload stands by now. A payload that failed within its request (`/ingest/with-images`) gives its key up: sent again, it is taken in anew.',
    }),
  ),
});

/** The answer to a payload that is stored, the same whenever its key brings it again. Contract 4, Answers. */
export const acceptedSchema = Type.Object({
  raw_id: Type.Integer(),
  status: choice(['pending']),
});

/** The parameters of routes that are about one payload. */
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
        'The stages that it has been through, each as it was when it last ran, in the order of these ' +
        'times. One that an attempt has not come to yet, or did not need, is as an earlier attempt left it.',
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
          'What the payload cost of the model so far, images included, and each attempt that has ended, however it did. Tokens are 0 where the server does not count them. Of an attempt whose worker was killed or lost its claim, what it had asked by the last renewal of its lease.',
      },
    ),
  ),
  created_at: Type.String({ format: 'date-time' }),
  updated_at: Type.String({ format: 'date-time' }),
});

/** A payload's way through the pipeline as it is answered: times are RFC 3339. */
export type Raw = Static<typeof rawSchema>;
