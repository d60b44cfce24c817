import { type Static, Type } from 'typebox';
import { listingSchema } from '../listing/listing.ts';
import { dealTypeSchema } from '../listing/fields.ts';
import { sourceSlugSchema, choice, nullable, MAX_ID } from '../schemas.ts';

/**
 * How many matches are ranked. To rank one costs some 5 µs, most of it for reading its row, so a word that
 * every listing has would take seconds over a million of them; with the bound it takes some milliseconds.
 * When it is reached the newest matches compete and the total is at least this number (`gte`).
 */
export const RANKED_MATCHES = 1000;

/** How far down each of its two rankings the hybrid search reads. */
export const HYBRID_DEPTH = 50;

/** How many hits an answer has where its request does not say. */
export const DEFAULT_LIMIT = 20;
const MAX_LIMIT = 100;

/** PostgreSQL's text holds neither U+0000 nor half a surrogate pair, so no stored text is asked for them. */
const STORABLE = '^[^\\u0000\\p{Cs}]*$';

const word = (maxLength: number, description: string) =>
  Type.Optional(Type.String({ minLength: 1, maxLength, pattern: STORABLE, description }));
const price = Type.Optional(Type.Number({ minimum: 0, maximum: 1e14 }));
const rooms = Type.Optional(Type.Integer({ minimum: 0, maximum: 10_000 }));
const area = Type.Optional(Type.Number({ minimum: 0, maximum: 1e10 }));

const filters = {
  deal_type: Type.Optional(dealTypeSchema),
  city: word(200, 'However it is written: "Івано-Франківськ" finds "івано франківськ".'),
  property_type: word(
    100,
    'As listings have it, in any case and spelling: "Apartment" finds "apartment", and "об’єкт" "об\'єкт".',
  ),
  price_min: price,
  price_max: price,
  rooms_min: rooms,
  rooms_max: rooms,
  area_min: area,
  area_max: area,
  source_slug: Type.Optional(sourceSlugSchema),
  include_archived: Type.Optional(Type.Boolean({ default: false })),
};

const limit = Type.Optional(
  Type.Integer({ minimum: 1, maximum: MAX_LIMIT, default: DEFAULT_LIMIT }),
);

const fold_duplicates = Type.Optional(
  Type.Boolean({
    default: false,
    description:
      'Show of each group of listings that are likely the same property only the best hit, with the ' +
      'others in `duplicates`.',
  }),
);

/** How many listings of a group are named beside the one that is shown. */
export const MAX_NAMED_DUPLICATES = 100;

const duplicates = Type.Optional(
  Type.Array(Type.Integer(), {
    maxItems: MAX_NAMED_DUPLICATES,
    description:
      'With `fold_duplicates`: the ids of the other listings that are likely the same property, ' +
      `also of those that the search itself does not find; the first ${MAX_NAMED_DUPLICATES} of them.`,
  }),
);

const query = Type.String({
  minLength: 1,
  maxLength: 512,
  pattern: STORABLE,
  description: 'Plain text. A listing is found when it has all the words, in any order.',
});

const filtersObject = Type.Object(filters);

/** What a listing must be, whatever its words. */
export type SearchFilters = Static<typeof filtersObject>;

/** What the full-text and the hybrid search are asked for. Contract 4, Search. */
export const fulltextSearchRequest = Type.Object(
  {
    query,
    ...filters,
    limit,
    cursor: Type.Optional(
      Type.String({ maxLength: 512, description: 'The `next_cursor` of the page before.' }),
    ),
    highlight: Type.Optional(Type.Boolean({ default: false })),
    fold_duplicates,
  },
  {
    $id: 'FulltextSearchRequest',
    additionalProperties: false,
    examples: [{ query: 'квартира Львів', limit: 3, highlight: true }],
  },
);

export type FulltextSearchRequest = Static<typeof fulltextSearchRequest>;

/** One hit of either: its rank compares it with others of the same answer only. */
export const fulltextSearchResult = Type.Object(
  {
    listing: listingSchema,
    rank: Type.Number(),
    highlight: Type.Optional(
      Type.String({
        description:
          'A passage of the listing as HTML: the found words in <mark>, everything else escaped.',
      }),
    ),
    duplicates,
  },
  { $id: 'FulltextSearchResult' },
);

export type FulltextSearchResult = Static<typeof fulltextSearchResult>;

const tookMs = Type.Integer({ description: 'Milliseconds that the search took.' });

/** A page of hits, the best first. */
export const fulltextSearchResponse = Type.Object(
  {
    items: Type.Array(Type.Ref('FulltextSearchResult')),
    total: Type.Object({
      value: Type.Integer(),
      relation: choice(['eq', 'gte'], {
        description:
          `\`gte\`: there are at least so many. Of the full-text search this is when ${RANKED_MATCHES} ` +
          'or more listings match: only the newest of them were ranked. Of the hybrid search it is ' +
          `when one of its two rankings has ${HYBRID_DEPTH} or more: no more were fused. With ` +
          '`fold_duplicates` each group counts once.',
      }),
    }),
    next_cursor: nullable(Type.String()),
    took_ms: tookMs,
  },
  { $id: 'FulltextSearchResponse' },
);

/** See `fulltextSearchResponse`, whose items are a reference that has no type. */
export type FulltextSearchResponse = {
  items: FulltextSearchResult[];
  total: { value: number; relation: 'eq' | 'gte' };
  next_cursor: string | null;
  took_ms: number;
};

/** How many listings one request may ask about. */
const MAX_IDS = 100;

/** What `/search/matches` is asked for: some listings, and a search. */
export const matchesRequest = Type.Object(
  {
    ids: Type.Array(Type.Integer({ minimum: 1, maximum: MAX_ID }), {
      minItems: 1,
      maxItems: MAX_IDS,
      uniqueItems: true,
      description: 'The listings to look at.',
    }),
    query: Type.Optional(query),
    ...filters,
  },
  {
    $id: 'SearchMatchesRequest',
    additionalProperties: false,
    description: 'A full-text search without its pages; without `query` the filters alone decide.',
    examples: [{ ids: [640, 812], query: 'балкон', city: 'Львів', price_max: 60_000 }],
  },
);

export type MatchesRequest = Static<typeof matchesRequest>;

/** Those of the listings that the search finds. */
export const matchesResponse = Type.Object(
  {
    items: Type.Array(Type.Object({ listing: listingSchema }), {
      description: 'Those of the listings that the search finds now, in the order of `ids`.',
    }),
    took_ms: tookMs,
  },
  { $id: 'SearchMatchesResponse' },
);

export type MatchesResponse = Static<typeof matchesResponse>;

/**
 * What the search by meaning is asked for. Contract 4, Search.
 * @param dimensions Width of the embeddings that are stored.
 */
export const similarSearchRequest = (dimensions: number) =>
  Type.Object(
    {
      query: Type.Optional(query),
      embedding: Type.Optional(
        Type.Array(Type.Number(), { minItems: dimensions, maxItems: dimensions }),
      ),
      listing_id: Type.Optional(Type.Integer({ minimum: 1, maximum: MAX_ID })),
      ...filters,
      limit,
      fold_duplicates,
    },
    {
      $id: 'SimilarSearchRequest',
      examples: [{ query: 'flat with a balcony in Lviv', limit: 3 }],
      additionalProperties: false,
      description: 'Exactly one of `query`, `embedding` and `listing_id` says what to be near to.',
    },
  );

export type SimilarSearchRequest = Static<ReturnType<typeof similarSearchRequest>>;

/** The nearest listings, the nearest first. */
export const similarSearchResponse = Type.Object(
  {
    items: Type.Array(
      Type.Object({
        listing: listingSchema,
        distance: Type.Number({ description: 'Cosine distance: 0 the same, 2 the opposite.' }),
        duplicates,
      }),
    ),
    took_ms: tookMs,
  },
  { $id: 'SimilarSearchResponse' },
);

export type SimilarSearchResponse = Static<typeof similarSearchResponse>;
