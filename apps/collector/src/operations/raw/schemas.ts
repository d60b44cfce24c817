import { pageQuery } from '@oselya/kit';
import { Type } from 'typebox';
import {
  sourceSlugSchema,
  choice,
  nullable,
  rawErrorSchema,
  rawStatusSchema,
} from '../../schemas.ts';

/** How many payloads a page has where the caller does not say. */
export const PAGE_SIZE = 100;

/** A hundred years: no payload is older, and no date is out of the database's range. */
const MAX_DAYS = 36_500;

const timestamp = Type.String({ format: 'date-time' });

/** The query of `GET /admin/raw`. */
export const listQuery = Type.Object(
  {
    status: rawStatusSchema,
    source_slug: Type.Optional(sourceSlugSchema),
    ...pageQuery({ limit: PAGE_SIZE, maxLimit: 1000 }),
  },
  { additionalProperties: false },
);

/** The answer of `GET /admin/raw`, those that changed last first. */
export const listAnswer = Type.Array(
  Type.Object({
    raw_id: Type.Integer({ description: 'GET /api/v1/raw/{raw_id} has its stages.' }),
    source_slug: Type.String(),
    external_id: Type.String(),
    status: Type.String(),
    attempts: Type.Integer(),
    error: rawErrorSchema,
    listing_id: nullable(Type.Integer()),
    request_id: nullable(
      Type.String({ description: 'The request that brought it, as it stands in the log.' }),
    ),
    created_at: timestamp,
    updated_at: timestamp,
  }),
  {
    description: 'A page of them; the next one is in `Link`.',
    examples: [
      [
        {
          raw_id: 4211,
          source_slug: 'doshka',
          external_id: 'flat-1',
          status: 'failed',
          attempts: 3,
          error: {
            code: 'model_failed',
            message: 'The model server answered with status 400.',
            stage: 'validate',
          },
          listing_id: null,
          request_id: '2f1d9c52-6a0e-4a39-9c55-0f6c1f8f5b1e',
          created_at: '2026-05-04T09:00:00.000Z',
          updated_at: '2026-05-04T09:00:12.000Z',
        },
      ],
    ],
  },
);

/** The query of `DELETE /admin/raw-data`. Contract 4, Operations. */
export const cleanupQuery = Type.Object(
  {
    older_than_days: Type.Integer({
      minimum: 0,
      maximum: MAX_DAYS,
      description: 'How long ago they came, at least; 0 is all of them.',
      examples: [90],
    }),
  },
  { additionalProperties: false },
);

/** The answer of `DELETE /admin/raw-data`. */
export const cleanupAnswer = Type.Object(
  { deleted: Type.Integer() },
  { description: 'How many were removed.', examples: [{ deleted: 1250 }] },
);

/** The body of `POST /admin/raw/retry`. */
export const retryBody = Type.Object(
  { status: choice(['failed', 'invalid']), source_slug: Type.Optional(sourceSlugSchema) },
  { additionalProperties: false, examples: [{ status: 'failed', source_slug: 'doshka' }] },
);

/** The answer of `POST /admin/raw/{raw_id}/retry`. */
export const retryOneAnswer = Type.Object(
  { raw_id: Type.Integer(), status: Type.Literal('pending') },
  { description: 'It waits in the queue.', examples: [{ raw_id: 4211, status: 'pending' }] },
);

/** The answer of `POST /admin/raw/retry`. */
export const retryAllAnswer = Type.Object(
  { retried: Type.Integer() },
  { description: 'How many wait in the queue again.', examples: [{ retried: 17 }] },
);
