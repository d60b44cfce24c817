import { type Static, Type } from 'typebox';
import { choice, nullable, MAX_ID } from '../schemas.ts';
import { filterSchemas, STORABLE_PATTERN } from './filter-schemas.ts';
import { hitSchemas } from './hits.ts';

/** Number of matches up to which a search ranks all together at least. Ranking takes 2 to 4 µs per match. */
export const MIN_RANKED_MATCHES = 20_000;
/** Estimated number of matches that are still ranked together, relative to the minimum: the estimate may be too large. */
export const MAX_SINGLE_BLOCK_FACTOR = 2;
/** Number of matches of a block, relative to `MIN_RANKED_MATCHES`. */
export const BLOCK_SHARE = 1 / 4;
/** Number of matches that a block has at least if a search has more matches than can be ranked together. */
export const MIN_BLOCK_MATCHES = MIN_RANKED_MATCHES * BLOCK_SHARE;

/** Number of matches that facets, points and the total of `browse` count, and that are sorted without an index. */
export const MAX_COUNTED_MATCHES = 20_000;

/** Number of matches up to which the hybrid search ranks all together at least: it takes few of each ranking. */
export const HYBRID_RANKED_MATCHES = MIN_BLOCK_MATCHES;

/** Number of hits that the hybrid search takes from each of its three rankings. */
export const HYBRID_DEPTH = 50;

export const DEFAULT_LIMIT = 20;
export const MAX_LIMIT = 100;

export const limitSchema = Type.Optional(
  Type.Integer({ minimum: 1, maximum: MAX_LIMIT, default: DEFAULT_LIMIT }),
);

export const cursorSchema = Type.Optional(
  Type.String({ maxLength: 512, description: 'The `next_cursor` of the previous page.' }),
);

export const foldDuplicatesSchema = Type.Optional(
  Type.Boolean({
    default: false,
    description:
      'Show only the best hit of each group of listings that are likely the same property, with the ' +
      'others in `duplicates`.',
  }),
);

export const textSchema = { minLength: 1, pattern: STORABLE_PATTERN };

const querySchema = Type.String({
  ...textSchema,
  maxLength: 512,
  description: 'Plain text. The search finds listings that contain all words, in any order.',
});

export const optionalQuerySchema = Type.Optional(querySchema);

/** Full-text and hybrid search request. Contract 4, Search. */
export const fulltextSearchRequestSchema = Type.Object(
  {
    query: querySchema,
    ...filterSchemas,
    limit: limitSchema,
    cursor: cursorSchema,
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
    ...hitSchemas,
    rank: Type.Number(),
    highlight: Type.Optional(
      Type.String({
        description:
          'A passage of the listing as HTML: the matched words are in <mark>, and everything else is escaped.',
      }),
    ),
  },
  { $id: 'FulltextSearchResult' },
);

type SearchHit = Static<typeof searchHitSchema>;

export const currencySchema = Type.String({
  description:
    'Currency of the price filters: the one of the request, or without one USD for sales and UAH for everything else.',
});

export const durationSchema = Type.Integer({
  description: 'Duration of the search in milliseconds.',
});

/** Page of hits, best first. */
export const fulltextSearchResponseSchema = Type.Object(
  {
    items: Type.Array(Type.Unsafe<SearchHit>(Type.Ref('FulltextSearchResult'))),
    total: Type.Object({
      value: Type.Integer(),
      relation: choice(['eq', 'gte'], {
        description:
          '`gte`: the number is a lower bound. A full-text search returns it when it has more than about ' +
          `${MIN_RANKED_MATCHES * MAX_SINGLE_BLOCK_FACTOR} matches: these are ranked in blocks of at least ${MIN_BLOCK_MATCHES}, which follow ` +
          'each other. A hybrid search returns it when one of its three rankings has ' +
          `${HYBRID_DEPTH} or more listings: no more are fused, and the other matches by stems follow with rank 0. With \`fold_duplicates\`, each group counts once.`,
      }),
    }),
    currency: currencySchema,
    understood: Type.Optional(
      Type.Object(
        {
          price_min: filterSchemas.price_min,
          price_max: filterSchemas.price_max,
          price_per_m2_min: filterSchemas.price_per_m2_min,
          price_per_m2_max: filterSchemas.price_per_m2_max,
          currency: filterSchemas.currency,
          area_min: filterSchemas.area_min,
          area_max: filterSchemas.area_max,
          rooms_min: filterSchemas.rooms_min,
          rooms_max: filterSchemas.rooms_max,
          floor_min: filterSchemas.floor_min,
          floor_max: filterSchemas.floor_max,
          near: filterSchemas.near,
        },
        {
          description:
            'Filters that a hybrid search took out of the words, such as "до 15000 грн" and "near Lviv", because the request has none of the kind.',
        },
      ),
    ),
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
    query: optionalQuerySchema,
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
    items: Type.Array(Type.Object(hitSchemas), {
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
        ...hitSchemas,
        distance: Type.Number({
          description: 'Cosine distance: 0 for the same direction, 2 for the opposite.',
        }),
      }),
    ),
    currency: currencySchema,
    took_ms: durationSchema,
  },
  { $id: 'SimilarSearchResponse' },
);

export type SimilarSearchResponse = Static<typeof similarSearchResponseSchema>;
