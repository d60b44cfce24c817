import type { Database } from '@oselya/db';
import { type RateLimit, type Server, whenAbandoned } from '@oselya/kit';
import { Type } from 'typebox';
import { limitedBy } from '../access/limited-by.ts';
import type { Tables } from '../tables.ts';
import { problemAnswers } from '../errors.ts';
import type { Metrics } from '../metrics.ts';
import { createFulltextSearch } from './fulltext.ts';
import { createHybridSearch } from './hybrid.ts';
import { findMatching } from './matches.ts';
import type { Embedder } from './query-vector.ts';
import {
  type FulltextSearchRequest,
  fulltextSearchRequest,
  type FulltextSearchResponse,
  fulltextSearchResponse,
  fulltextSearchResult,
  HYBRID_DEPTH,
  type MatchesRequest,
  matchesRequest,
  type MatchesResponse,
  matchesResponse,
  RANKED_MATCHES,
  type SimilarSearchRequest,
  similarSearchRequest,
  type SimilarSearchResponse,
  similarSearchResponse,
} from './schemas.ts';
import { createSimilarSearch } from './similar.ts';

/** What the searches work with. */
export type SearchDeps = {
  db: Database<Tables>['db'];
  model: Embedder;
  /** EMBEDDING_DIMENSIONS. */
  dimensions: number;
  /**
   * The limits on searches; the key is the API key's id, or the client's network without one. Hybrid searches
   * and looks at what matches count as full-text ones.
   */
  limits: { fulltext: RateLimit; similar: RateLimit };
  metrics: Pick<Metrics, 'searchDuration'>;
  /** How many matches are ranked; see `RANKED_MATCHES`. */
  rankedMatches?: number;
  /** How many distances are computed without the index; see `EXACT_MATCHES`. */
  exactMatches?: number;
};

/** Runs a search and says how long it took. */
type Timed = <Result extends object>(
  kind: string,
  search: () => Promise<Result>,
) => Promise<Result & { took_ms: number }>;

const config = { scope: 'search' } as const;
const fulltextBody = Type.Unsafe<FulltextSearchRequest>(Type.Ref('FulltextSearchRequest'));
const fulltextAnswer = Type.Unsafe<FulltextSearchResponse>(Type.Ref('FulltextSearchResponse'));

/**
 * `POST /search/fulltext`, `/search/similar`, `/search/hybrid` and `/search/matches`. Specification 001, Endpoints;
 * Contract 4, Search.
 */
export function searchRoutes(app: Server, deps: SearchDeps): void {
  for (const schema of [
    fulltextSearchRequest,
    fulltextSearchResult,
    fulltextSearchResponse,
    similarSearchRequest(deps.dimensions),
    similarSearchResponse,
    matchesRequest,
    matchesResponse,
  ]) {
    app.addSchema(schema);
  }
  const timed = createTimed(deps.metrics);
  fulltextRoute(app, deps, timed);
  similarRoute(app, deps, timed);
  hybridRoute(app, deps, timed);
  matchesRoute(app, deps, timed);
}

/** Searches that fail are not measured. */
function createTimed(metrics: SearchDeps['metrics']): Timed {
  return async (kind, search) => {
    const startedAt = performance.now();
    const result = await search();
    const tookMs = performance.now() - startedAt;
    metrics.searchDuration.observe({ kind }, tookMs / 1000);
    return { ...result, took_ms: Math.round(tookMs) };
  };
}

function fulltextRoute(app: Server, deps: SearchDeps, timed: Timed): void {
  const search = createFulltextSearch(deps);
  app.post(
    '/search/fulltext',
    {
      config,
      onRequest: limitedBy(deps.limits.fulltext),
      schema: {
        tags: ['search'],
        summary: 'Find listings by their words',
        description:
          `Ranks the ${RANKED_MATCHES} newest listings that match, the best first. Where more match, ` +
          'the older ones are not found and `total.relation` is `gte`: narrow the search by filters.',
        body: fulltextBody,
        response: { 200: fulltextAnswer, ...problemAnswers(400, 401, 403, 422, 429, 503) },
      },
    },
    ({ body }, reply) => timed('fulltext', () => search(body, whenAbandoned(reply))),
  );
}

function similarRoute(app: Server, deps: SearchDeps, timed: Timed): void {
  const search = createSimilarSearch(deps);
  app.post(
    '/search/similar',
    {
      config,
      onRequest: limitedBy(deps.limits.similar),
      schema: {
        tags: ['search'],
        summary: 'Find listings near to a text, an embedding or a listing',
        body: Type.Unsafe<SimilarSearchRequest>(Type.Ref('SimilarSearchRequest')),
        response: {
          200: Type.Unsafe<SimilarSearchResponse>(Type.Ref('SimilarSearchResponse')),
          ...problemAnswers(
            400,
            401,
            403,
            'listing_not_found',
            'listing_not_embedded',
            422,
            429,
            'model_failed',
            'model_unavailable',
            503,
          ),
        },
      },
    },
    ({ body }, reply) => timed('similar', () => search(body, whenAbandoned(reply))),
  );
}

function hybridRoute(app: Server, deps: SearchDeps, timed: Timed): void {
  const search = createHybridSearch(deps);
  app.post(
    '/search/hybrid',
    {
      config,
      onRequest: limitedBy(deps.limits.fulltext),
      schema: {
        tags: ['search'],
        summary: 'Find listings by their words and their meaning together',
        description:
          `Fuses the ${HYBRID_DEPTH} best listings by words (ranked as in the full-text search) with ` +
          `the ${HYBRID_DEPTH} nearest by meaning.`,
        body: fulltextBody,
        response: {
          200: fulltextAnswer,
          ...problemAnswers(400, 401, 403, 422, 429, 'model_failed', 'model_unavailable', 503),
        },
      },
    },
    ({ body }, reply) => timed('hybrid', () => search(body, whenAbandoned(reply))),
  );
}

function matchesRoute(app: Server, { db, limits }: SearchDeps, timed: Timed): void {
  app.post(
    '/search/matches',
    {
      config,
      onRequest: limitedBy(limits.fulltext),
      schema: {
        tags: ['search'],
        summary: 'Which of some listings a search finds now',
        description:
          'For whoever keeps searches: give it the listings that `GET /listings/changes` names. A listing ' +
          'is among the answer where the full-text search of the same words and filters would find it, ' +
          'however many newer ones it finds. A query without a word finds nothing.',
        body: Type.Unsafe<MatchesRequest>(Type.Ref('SearchMatchesRequest')),
        response: {
          200: Type.Unsafe<MatchesResponse>(Type.Ref('SearchMatchesResponse')),
          ...problemAnswers(400, 401, 403, 422, 429, 503),
        },
      },
    },
    ({ body }) => timed('matches', () => findMatching(db, body)),
  );
}
