import { cursors, pageQuery } from '@oselya/kit';
import { Type } from 'typebox';
import { duplicatesSchema } from '../duplicates/index.ts';
import { idParam, MAX_ID, choice, nullable } from '../schemas.ts';
import { RULES } from './provenance.ts';
import { listingSchema } from './listing.ts';

/** The path of what is asked of one listing. */
export const listingParams = Type.Object({ id: idParam });

/** How many items a page has where the caller does not say. */
export const PAGE_SIZE = 100;

/** The largest `integer` of PostgreSQL. */
const MAX_INTEGER = 2 ** 31 - 1;

/** The query of lists that belong to a listing: a page of them. */
export const listingPageQuery = Type.Object(pageQuery({ limit: PAGE_SIZE, maxLimit: 1000 }));

const wholeNumber = (maximum: number) => Type.Integer({ minimum: 0, maximum });

/** Where a page of the history ends. */
export const historyCursors = cursors(
  Type.Object(
    { rawId: wholeNumber(MAX_ID), revision: wholeNumber(MAX_INTEGER) },
    { additionalProperties: false },
  ),
);

/** Where a page of pictures ends: at a position. */
export const imageCursors = cursors(wholeNumber(MAX_INTEGER));

const origins = Object.entries(RULES).map(([rule, does]) => `\`${rule}\`, ${does}`);

/** Where the facts of a listing come from. */
const provenanceSchema = Type.Object(
  {
    raw_id: nullable(
      Type.Integer({
        description: 'The last payload that says so; null once it was removed for its age.',
      }),
    ),
    model: nullable(Type.String({ description: "The model's name as its server gave it." })),
    prompt_version: nullable(Type.String()),
    fields: Type.Record(
      Type.String(),
      Type.Object({
        origin: choice(['payload', 'model', 'rule']),
        rule: Type.Optional(Type.String({ description: `${origins.join('; ')}.` })),
        of: Type.Optional(
          Type.String({
            description: 'Whose value the rule changed or left out: payload or model.',
          }),
        ),
      }),
      { description: 'By the name of the fact; a fact that nobody named is not there.' },
    ),
  },
  { description: 'Where each fact comes from.' },
);

/** A listing by itself: with more about it than search gives. */
export const oneListingSchema = Type.Object({
  ...listingSchema.properties,
  price_per_m2: nullable(Type.Number({ description: "In the listing's currency." })),
  provenance: nullable(provenanceSchema),
  duplicate_group: nullable(
    Type.Integer({
      description: 'The smallest id of the listings that are likely the same property as it.',
    }),
  ),
  duplicates: duplicatesSchema,
});

/** The answer of `GET /listings/{id}/history`, the newest snapshot first. Contract 4, Listings. */
export const historySchema = Type.Array(
  Type.Object({
    raw_id: Type.Integer({ description: 'The payload that says so.' }),
    reprocessed: Type.Boolean({
      description:
        'Whether `oselya reprocess` had that payload read again: then the source need not have said ' +
        'anything new.',
    }),
    created_at: Type.String({ format: 'date-time' }),
    changes: Type.Record(Type.String(), Type.Object({ from: Type.Unknown(), to: Type.Unknown() }), {
      description:
        'What changed since the snapshot before, by field; empty in the first. `pictures` are addresses, ' +
        'or the SHA-256 of those that came with the payload.',
    }),
    listing: Type.Object({}, { additionalProperties: true, description: 'What it then was.' }),
    model: nullable(Type.String({ description: 'Which model read the payload.' })),
    prompt_version: nullable(Type.String()),
  }),
);

/** The answer of `GET /listings/{id}/images`, in the order of the payload. Contract 4, Listings. */
export const imagesSchema = Type.Array(
  Type.Object({
    position: Type.Integer(),
    url: nullable(Type.String()),
    sha256: nullable(Type.String({ description: 'See GET /api/v1/images/{sha256}.' })),
    error: nullable(Type.String({ description: 'Why the picture could not be used.' })),
    media_type: nullable(Type.String()),
    width: nullable(Type.Integer()),
    height: nullable(Type.Integer()),
    bytes: nullable(Type.Integer()),
    description: nullable(Type.String()),
    room_type: nullable(Type.String()),
    quality: nullable(Type.String()),
    described_by: nullable(
      Type.String({
        description: 'The name of the model that described it, as its server gave it.',
      }),
    ),
    prompt_version: nullable(
      Type.String({ description: 'The prompt that it was described with.' }),
    ),
    describe_error: nullable(
      Type.Object(
        {
          code: Type.String(),
          message: Type.String(),
          requested_model: Type.String(),
          prompt_version: Type.String(),
          failed_at: Type.String({ format: 'date-time' }),
        },
        { description: 'Why it could not be described, and what the model was asked with.' },
      ),
    ),
  }),
);
