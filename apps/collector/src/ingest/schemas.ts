import { type Static, Type } from 'typebox';
import { idParam } from '../schemas/ids.ts';
import { choice, nullable } from '../schemas/common.ts';
import { RAW_STATUSES, rawErrorSchema, rawStatusSchema } from '../schemas/raw.ts';

/** Says that a payload had been stored before, under the same idempotency key. */
export const REPLAYED = 'idempotent-replayed';

export const ingestHeaders = Type.Object({
  'idempotency-key': Type.Optional(
    Type.String({
      minLength: 1,
      maxLength: 255,
      pattern: '^[\\x20-\\x7e]+$',
      description:
        'The same key with the same payload within 24 hours gives the same `raw_id`, with the header `Idempotent-Replayed: true`. A payload that failed within its request (`/ingest/with-images`) gives its key up: sent again, it is taken in anew.',
    }),
  ),
});

export const acceptedSchema = Type.Object({
  raw_id: Type.Integer(),
  status: choice(RAW_STATUSES, {
    description:
      '`pending`, unless the `Idempotency-Key` came before: then how the payload of that key stands now.',
  }),
});

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
      outcome: Type.String(),
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
          'What the payload cost of the model so far, images included, and each attempt that has ended, however it did. Tokens are 0 where the server does not count them. An attempt is not counted whose worker was killed or lost its claim.',
      },
    ),
  ),
  created_at: Type.String({ format: 'date-time' }),
  updated_at: Type.String({ format: 'date-time' }),
});

export type Raw = Static<typeof rawSchema>;
