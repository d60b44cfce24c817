import { type Static, Type } from 'typebox';
import { listingSchema } from '../listing/listing.ts';
import { dealTypeSchema } from '../listing/fields.ts';
import { PROPERTY_TYPES } from '../listing/property-types.ts';
import { requestedCurrencySchema } from '../money/conversion.ts';
import { sourceSlugSchema, choice, nullable, MAX_ID } from '../schemas.ts';

/**
 * Maximum number of matches to rank, newest first. Ranking takes about 5 µs per match, so a word in every listing would
 * take seconds. At this number, the total is reported as "at least" (`gte`).
 */
export const MAX_RANKED_MATCHES = 1000;

/** Number of hits that the hybrid search takes from each of its two rankings. */
export const HYBRID_DEPTH = 50;

export const DEFAULT_LIMIT = 20;
const MAX_LIMIT = 100;

/** Pattern that excludes U+0000 and lone surrogates, which PostgreSQL cannot store as text. */
const STORABLE_PATTERN = '^[^\\u0000\\p{Cs}]*$';

const createTextFilter = (maxLength: number, description: string) =>
  Type.Optional(Type.String({ minLength: 1, maxLength, pattern: STORABLE_PATTERN, description }));
const MAX_PLACES_PER_FILTER = 50;

/** One name, or several of which one must match. A type array keeps the paths of errors and the bounds in one schema. */
const createPlaceFilter = (description: string) =>
  Type.Optional(
    Type.Unsafe<string | string[]>({
      type: ['string', 'array'],
      minLength: 1,
      maxLength: 200,
      pattern: STORABLE_PATTERN,
      items: { type: 'string', minLength: 1, maxLength: 200, pattern: STORABLE_PATTERN },
      minItems: 1,
      maxItems: MAX_PLACES_PER_FILTER,
      description: `${description} Several names are alternatives.`,
    }),
  );
const priceSchema = Type.Optional(Type.Number({ minimum: 0, maximum: 1e14 }));
const roomsSchema = Type.Optional(Type.Integer({ minimum: 0, maximum: 10_000 }));
const areaSchema = Type.Optional(Type.Number({ minimum: 0, maximum: 1e10 }));

const filterSchemas = {
  deal_type: Type.Optional(dealTypeSchema),
  city: createPlaceFilter(
    'City by any of its names in any spelling: "Lwów" and "Львов" find "Львів". An unknown name finds cities of this spelling.',
  ),
  district: createPlaceFilter(
    'District or raion by any of its names in any spelling, in every city unless `city` is given.',
  ),
  region: createPlaceFilter(
    'Region by any of its names, such as "Львівська область" or "Львівщина". An unknown name finds nothing.',
  ),
  property_type: createTextFilter(
    100,
    `${PROPERTY_TYPES.join(', ')}, or a word for one of them in Ukrainian, Russian or English: "квартира" and "flat" find "apartment". Another word is 422.`,
  ),
  price_min: priceSchema,
  price_max: priceSchema,
  price_per_m2_min: priceSchema,
  price_per_m2_max: priceSchema,
  currency: requestedCurrencySchema,
  rooms_min: roomsSchema,
  rooms_max: roomsSchema,
  area_min: areaSchema,
  area_max: areaSchema,
  source_slug: Type.Optional(sourceSlugSchema),
  include_archived: Type.Optional(Type.Boolean({ default: false })),
};

const limitSchema = Type.Optional(
  Type.Integer({ minimum: 1, maximum: MAX_LIMIT, default: DEFAULT_LIMIT }),
);

const foldDuplicatesSchema = Type.Optional(
  Type.Boolean({
    default: false,
    description:
      'Show only the best hit of each group of listings that are likely the same property, with the ' +
      'others in `duplicates`.',
  }),
);

export const MAX_NAMED_DUPLICATES = 100;

const duplicatesSchema = Type.Optional(
  Type.Array(Type.Integer(), {
    maxItems: MAX_NAMED_DUPLICATES,
    description:
      'With `fold_duplicates`: the IDs of the other listings that are likely the same property, ' +
      `even if the search does not find them; at most ${MAX_NAMED_DUPLICATES} IDs.`,
  }),
);

const querySchema = Type.String({
  minLength: 1,
  maxLength: 512,
  pattern: STORABLE_PATTERN,
  description: 'Plain text. The search finds listings that contain all words, in any order.',
});

const filtersSchema = Type.Object(filterSchemas);

export type SearchFilters = Static<typeof filtersSchema>;

/** Full-text and hybrid search request. Contract 4, Search. */
export const fulltextSearchRequestSchema = Type.Object(
  {
    query: querySchema,
    ...filterSchemas,
    limit: limitSchema,
    cursor: Type.Optional(
      Type.String({ maxLength: 512, description: 'The `next_cursor` of the previous page.' }),
    ),
    highlight: Type.Optional(Type.Boolean({ default: false })),
    fold_duplicates: foldDuplicatesSchema,
  },
  {
    $id: 'FulltextSearchRequest',
    additionalProperties: false,
    examples: [{ query: 'квартира Львів', limit: 3, highlight: true }],
  },
);

export type FulltextSearchRequest = Static<typeof fulltextSearchRequestSchema>;

/** Full-text or hybrid search hit. Ranks are comparable only within one response. */
export const searchHitSchema = Type.Object(
  {
    listing: listingSchema,
    rank: Type.Number(),
    highlight: Type.Optional(
      Type.String({
        description:
          'A passage of the listing as HTML: the matched words are in <mark>, and everything else is escaped.',
      }),
    ),
    duplicates: duplicatesSchema,
  },
  { $id: 'FulltextSearchResult' },
);

type SearchHit = Static<typeof searchHitSchema>;

const currencySchema = Type.String({
  description:
    'Currency of the price filters: the one of the request, or without one USD for sales and UAH for everything else.',
});

const durationSchema = Type.Integer({ description: 'Duration of the search in milliseconds.' });

/** Page of hits, best first. */
export const fulltextSearchResponseSchema = Type.Object(
  {
    items: Type.Array(Type.Unsafe<SearchHit>(Type.Ref('FulltextSearchResult'))),
    total: Type.Object({
      value: Type.Integer(),
      relation: choice(['eq', 'gte'], {
        description:
          `\`gte\`: the number is a lower bound. A full-text search returns it when ${MAX_RANKED_MATCHES} ` +
          'or more listings match: only the newest of them were ranked. A hybrid search returns it ' +
          `when one of its two rankings has ${HYBRID_DEPTH} or more listings: no more were fused. With ` +
          '`fold_duplicates`, each group counts once.',
      }),
    }),
    currency: currencySchema,
    next_cursor: nullable(Type.String()),
    took_ms: durationSchema,
  },
  { $id: 'FulltextSearchResponse' },
);

export type FulltextSearchResponse = Static<typeof fulltextSearchResponseSchema>;

const MAX_MATCHED_IDS = 100;

/** Request of `/search/matches`: listing IDs and a search. */
export const matchesRequestSchema = Type.Object(
  {
    ids: Type.Array(Type.Integer({ minimum: 1, maximum: MAX_ID }), {
      minItems: 1,
      maxItems: MAX_MATCHED_IDS,
      uniqueItems: true,
      description: 'IDs of the listings to match.',
    }),
    query: Type.Optional(querySchema),
    ...filterSchemas,
  },
  {
    $id: 'SearchMatchesRequest',
    additionalProperties: false,
    description: 'A full-text search without pages. Without `query`, only the filters decide.',
    examples: [{ ids: [640, 812], query: 'балкон', city: 'Львів', price_max: 60_000 }],
  },
);

export type MatchesRequest = Static<typeof matchesRequestSchema>;

export const matchesResponseSchema = Type.Object(
  {
    items: Type.Array(Type.Object({ listing: listingSchema }), {
      description: 'The listings that the search finds, in the order of `ids`.',
    }),
    currency: currencySchema,
    took_ms: durationSchema,
  },
  { $id: 'SearchMatchesResponse' },
);

export type MatchesResponse = Static<typeof matchesResponseSchema>;

/**
 * Creates the request schema of the search by meaning. Contract 4, Search.
 * @param dimensions Number of dimensions of the stored embeddings.
 */
export const createSimilarSearchRequestSchema = (dimensions: number) =>
  Type.Object(
    {
      query: Type.Optional(querySchema),
      embedding: Type.Optional(
        Type.Array(Type.Number(), { minItems: dimensions, maxItems: dimensions }),
      ),
      listing_id: Type.Optional(Type.Integer({ minimum: 1, maximum: MAX_ID })),
      ...filterSchemas,
      limit: limitSchema,
      fold_duplicates: foldDuplicatesSchema,
    },
    {
      $id: 'SimilarSearchRequest',
      examples: [{ query: 'flat with a balcony in Lviv', limit: 3 }],
      additionalProperties: false,
      description: 'A request with exactly one of `query`, `embedding` and `listing_id`.',
    },
  );

export type SimilarSearchRequest = Static<ReturnType<typeof createSimilarSearchRequestSchema>>;

export const similarSearchResponseSchema = Type.Object(
  {
    items: Type.Array(
      Type.Object({
        listing: listingSchema,
        distance: Type.Number({
          description: 'Cosine distance: 0 for the same direction, 2 for the opposite.',
        }),
        duplicates: duplicatesSchema,
      }),
    ),
    currency: currencySchema,
    took_ms: durationSchema,
  },
  { $id: 'SimilarSearchResponse' },
);

export type SimilarSearchResponse = Static<typeof similarSearchResponseSchema>;
