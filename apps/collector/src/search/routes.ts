import { addNextLink, createDisconnectSignal, type RateLimit, type Server } from '@oselya/kit';
import { type TSchema, Type } from 'typebox';
import { createRateLimitHook } from '../access/guard.ts';
import { problemResponses } from '../errors.ts';
import { listingReference } from '../listing/listing.ts';
import type { Metrics } from '../metrics.ts';
import {
  DEFAULT_LIMIT,
  type FulltextSearchRequest,
  fulltextSearchRequestSchema,
  type FulltextSearchResponse,
  fulltextSearchResponseSchema,
  searchHitSchema,
  HYBRID_DEPTH,
  type MatchesRequest,
  matchesRequestSchema,
  type MatchesResponse,
  matchesResponseSchema,
  MAX_SINGLE_BLOCK_FACTOR,
  MIN_BLOCK_MATCHES,
  MIN_RANKED_MATCHES,
  type SimilarSearchRequest,
  createSimilarSearchRequestSchema,
  type SimilarSearchResponse,
  similarSearchResponseSchema,
} from './schemas.ts';
import {
  browse,
  browseByQuery,
  type BrowseRequest,
  browseRequestSchema,
  type BrowseResponse,
  browseResponseSchema,
  listQuerySchema,
} from './browse.ts';
import {
  countFacets,
  facetSchema,
  type FacetsRequest,
  facetsRequestSchema,
  type FacetsResponse,
  facetsResponseSchema,
  histogramSchema,
} from './facets.ts';
import {
  findPoints,
  type PointsRequest,
  pointsRequestSchema,
  type PointsResponse,
  pointsResponseSchema,
} from './points.ts';
import {
  suggest,
  suggestQuerySchema,
  type SuggestResponse,
  suggestResponseSchema,
} from './suggest.ts';
import { createSearchService, type SearchDeps } from './service.ts';

/** Number of requests to browse for one full-text search: a console sends several for each change of a filter. */
export const BROWSE_LIMIT_FACTOR = 5;

export type SearchRouteDeps = SearchDeps & {
  dimensions: number;
  /**
   * Rate limits for each API key or client network. Hybrid searches and matches count as full-text searches; pages,
   * facets, points and suggestions count together as `browse`.
   */
  limits: { fulltext: RateLimit; similar: RateLimit; browse: RateLimit };
  metrics: Pick<Metrics, 'searchDuration'>;
};

const createRef = <Value>(name: string) => Type.Unsafe<Value>(Type.Ref(name));

const createRouteOptions = (limit: RateLimit) => ({
  config: { scope: 'search' } as const,
  onRequest: createRateLimitHook(limit),
});

/**
 * Registers the routes of search. Specification 001, Endpoints; Contract 4, Search.
 */
export function registerSearchRoutes(app: Server, deps: SearchRouteDeps): void {
  const { limits, metrics } = deps;
  const searchService = createSearchService(deps);
  const schemas: TSchema[] = [
    fulltextSearchRequestSchema,
    searchHitSchema,
    fulltextSearchResponseSchema,
    createSimilarSearchRequestSchema(deps.dimensions),
    similarSearchResponseSchema,
    matchesRequestSchema,
    matchesResponseSchema,
    browseRequestSchema,
    browseResponseSchema,
    facetsRequestSchema,
    facetSchema,
    histogramSchema,
    facetsResponseSchema,
    pointsRequestSchema,
    pointsResponseSchema,
    suggestResponseSchema,
  ];
  for (const schema of schemas) app.addSchema(schema);

  const baseSchema = { tags: ['search'] };
  const fulltextBody = createRef<FulltextSearchRequest>('FulltextSearchRequest');
  const fulltextResponse = createRef<FulltextSearchResponse>('FulltextSearchResponse');

  /** Records the duration of a search, unless it fails, and adds it to the result. */
  async function measureSearch<Result extends object>(
    kind: string,
    search: Promise<Result>,
  ): Promise<Result & { took_ms: number }> {
    const startedAt = performance.now();
    const result = await search;
    const tookMs = performance.now() - startedAt;
    metrics.searchDuration.observe({ kind }, tookMs / 1000);
    return { ...result, took_ms: Math.round(tookMs) };
  }

  app.post(
    '/search/fulltext',
    {
      ...createRouteOptions(limits.fulltext),
      schema: {
        ...baseSchema,
        summary: 'Search listings by their words',
        description:
          `Ranks all matches, best first. If there are more than about ${MIN_RANKED_MATCHES * MAX_SINGLE_BLOCK_FACTOR}, \`total.relation\` is ` +
          '`gte`, and pages go on from the best listings with all words in the title to the rest, newest first in ' +
          `blocks of at least ${MIN_BLOCK_MATCHES}.`,
        body: fulltextBody,
        response: {
          200: fulltextResponse,
          ...problemResponses(400, 401, 403, 413, 415, 422, 429, 503),
        },
      },
    },
    ({ body }) => measureSearch('fulltext', searchService.fulltext(body)),
  );

  app.post(
    '/search/similar',
    {
      ...createRouteOptions(limits.similar),
      schema: {
        ...baseSchema,
        summary: 'Search the listings nearest to a text, an embedding or a listing',
        body: createRef<SimilarSearchRequest>('SimilarSearchRequest'),
        response: {
          200: createRef<SimilarSearchResponse>('SimilarSearchResponse'),
          ...problemResponses(400, 401, 403, 'listing_not_found', 'listing_not_embedded', 413, 415),
          ...problemResponses(422, 429, 'model_failed', 'model_unavailable', 503),
        },
      },
    },
    ({ body }, reply) =>
      measureSearch('similar', searchService.similar(body, createDisconnectSignal(reply))),
  );

  app.post(
    '/search/hybrid',
    {
      ...createRouteOptions(limits.fulltext),
      schema: {
        ...baseSchema,
        summary: 'Search listings by words and meaning',
        description:
          `Fuses the ${HYBRID_DEPTH} best listings by exact words (ranked as in the full-text search), the ` +
          `${HYBRID_DEPTH} best by stems, synonyms and facts in three languages, and the ${HYBRID_DEPTH} nearest by meaning.`,
        body: fulltextBody,
        response: {
          200: fulltextResponse,
          ...problemResponses(400, 401, 403, 413, 415, 422, 429),
          ...problemResponses('model_failed', 'model_unavailable', 503),
        },
      },
    },
    ({ body }, reply) =>
      measureSearch('hybrid', searchService.hybrid(body, createDisconnectSignal(reply))),
  );

  app.post(
    '/search/matches',
    {
      ...createRouteOptions(limits.fulltext),
      schema: {
        ...baseSchema,
        summary: 'Return which of the given listings a search finds',
        description:
          'For clients with saved searches: send the listings of `GET /listings/changes`. The response has the listings that a ' +
          'full-text search with the same words and filters would find, even if many newer listings match. A query ' +
          'without a word finds nothing.',
        body: createRef<MatchesRequest>('SearchMatchesRequest'),
        response: {
          200: createRef<MatchesResponse>('SearchMatchesResponse'),
          ...problemResponses(400, 401, 403, 413, 415, 422, 429, 503),
        },
      },
    },
    ({ body }) => measureSearch('matches', searchService.matches(body)),
  );

  app.post(
    '/search/browse',
    {
      ...createRouteOptions(limits.browse),
      schema: {
        ...baseSchema,
        summary: 'List listings without words, in an order',
        description: 'Pages go on through all matches.',
        body: createRef<BrowseRequest>('BrowseRequest'),
        response: {
          200: createRef<BrowseResponse>('BrowseResponse'),
          ...problemResponses(400, 401, 403, 413, 415, 422, 429, 503),
        },
      },
    },
    ({ body }) => measureSearch('browse', browse(deps.db, body)),
  );

  app.get(
    '/listings',
    {
      ...createRouteOptions(limits.browse),
      schema: {
        tags: ['listings'],
        summary: 'List listings in an order',
        description:
          'The same pages as those of `POST /search/browse`; the header `Link` has the next page. Several values of a ' +
          'parameter are repeated keys, such as `city=Lviv&city=Kyiv` and `bbox=23.8&bbox=49.7&bbox=24.2&bbox=49.95`.',
        querystring: listQuerySchema,
        response: {
          200: Type.Array(listingReference),
          ...problemResponses(401, 403, 422, 429, 503),
        },
      },
    },
    async (request, reply) => {
      const { limit = DEFAULT_LIMIT } = request.query;
      const { items, next_cursor: cursor } = await measureSearch(
        'browse',
        browseByQuery(deps.db, request.query),
      );
      if (cursor !== null) addNextLink({ limit, cursor }, { request, reply });
      return items.map(({ listing }) => listing);
    },
  );

  app.post(
    '/search/facets',
    {
      ...createRouteOptions(limits.browse),
      schema: {
        ...baseSchema,
        summary: 'Count the matches of a search by the values of its filters',
        body: createRef<FacetsRequest>('FacetsRequest'),
        response: {
          200: createRef<FacetsResponse>('FacetsResponse'),
          ...problemResponses(400, 401, 403, 413, 415, 422, 429, 503),
        },
      },
    },
    ({ body }) => measureSearch('facets', countFacets(deps.db, body)),
  );

  app.post(
    '/search/points',
    {
      ...createRouteOptions(limits.browse),
      schema: {
        ...baseSchema,
        summary: 'Cluster the matches of a search on a map',
        body: createRef<PointsRequest>('PointsRequest'),
        response: {
          200: createRef<PointsResponse>('PointsResponse'),
          ...problemResponses(400, 401, 403, 413, 415, 422, 429, 503),
        },
      },
    },
    ({ body }) => measureSearch('points', findPoints(deps.db, body)),
  );

  app.get(
    '/search/suggest',
    {
      ...createRouteOptions(limits.browse),
      schema: {
        ...baseSchema,
        summary: 'Suggest filters whose names begin with a text',
        querystring: suggestQuerySchema,
        response: {
          200: createRef<SuggestResponse>('SuggestResponse'),
          ...problemResponses(401, 403, 422, 429, 503),
        },
      },
    },
    ({ query }) => measureSearch('suggest', Promise.resolve(suggest(query))),
  );
}
