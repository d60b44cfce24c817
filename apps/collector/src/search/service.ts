import { type Kysely, sql, type SqlBool } from 'kysely';
import { type Static, Type } from 'typebox';
import { problem } from '../errors.ts';
import { choice, MAX_ID } from '../schemas.ts';
import type { Tables } from '../tables.ts';
import { normalizeText } from '../text.ts';
import { defineSearchCursor } from './cursor.ts';
import type { SearchFilters } from './filter-schemas.ts';
import { type ResolvedFilters, resolveFilters, whereFilters } from './filters.ts';
import { createStemMatcher, highlight, type WordMatcher } from './highlight.ts';
import { type HitOptions, loadHits } from './hits.ts';
import {
  type QueryEmbedder,
  embedQuery,
  findNearest,
  type NearestQuery,
  type Neighbour,
  type QueryVector,
  toUnitVector,
} from './nearest.ts';
import { analyzeQuery, type QueryAnalysis } from './query-analysis.ts';
import type { QueryLimits } from './query-limits.ts';
import {
  compareByRank,
  type Hit,
  type Position,
  type RankedSearch,
  rankPage,
  readNewestId,
} from './ranking.ts';
import {
  DEFAULT_LIMIT,
  type FulltextSearchRequest,
  type FulltextSearchResponse,
  HYBRID_DEPTH,
  HYBRID_RANKED_MATCHES,
  type MatchesRequest,
  type MatchesResponse,
  type SimilarSearchRequest,
  type SimilarSearchResponse,
} from './schemas.ts';
import { searchByStems } from './stem-search.ts';
import { createExactQuery } from './word-queries.ts';

export type SearchDeps = { db: Kysely<Tables>; model: QueryEmbedder };

type WithoutDuration<Response> = Omit<Response, 'took_ms'>;

/**
 * Constant of reciprocal rank fusion, and weights of the rankings. With a smaller constant, the first listings dominate.
 * Tuned on labelled queries (docs/adr/0030-fusion.md).
 */
const FUSION_CONSTANT = 10;
const FUSION_WEIGHTS = { words: 0.3, stems: 1, meaning: 0.2 };

/** Factor by which each attempt to fill a page without duplicates reads more neighbours. */
const READ_GROWTH_FACTOR = 2;
/** Maximum number of neighbours to read for a page without duplicates; also the maximum of `ef_search`. */
const MAX_NEIGHBOURS_READ = 1000;

const EMPTY_PAGE = {
  items: [],
  total: { value: 0, relation: 'eq' as const },
  next_cursor: null,
};

/**
 * Creates the search service. The signal of a search aborts when the client disconnects. A query without words finds
 * nothing. The model is called before the database, so that no connection is held during the call. Contract 4, Search.
 */
export function createSearchService({ db, model }: SearchDeps) {
  /** Presents hits of a search by words, with the matched words marked if there is a matcher. */
  async function presentHits(hits: readonly Hit[], options: HitOptions, words?: WordMatcher) {
    const results = await loadHits(db, hits, options);
    return results.map(({ hit, result }) => {
      const { title, description } = result.listing;
      const listingText = title === null ? description : `${title}\n${description}`;
      const highlightField = words && { highlight: highlight(listingText, words) };
      return { ...result, rank: hit.rank, ...highlightField };
    });
  }

  /** Ranks listings by exact words, stems and meaning, and fuses the three rankings. */
  async function rankHybrid(
    { text, newestId }: { text: string; newestId: number },
    analysis: QueryAnalysis,
    filters: ResolvedFilters,
    queryVector: QueryVector,
  ) {
    const search = { filters, minRankedMatches: HYBRID_RANKED_MATCHES };
    const [exact, stems, neighbours] = await Promise.all([
      rankPage(db, { ...search, words: createExactQuery(text) }, { limit: HYBRID_DEPTH, newestId }),
      searchByStems(db, analysis.groups, { filters, limit: HYBRID_DEPTH, newestId }),
      findNearest(db, { ...queryVector, filters, limit: HYBRID_DEPTH, newestId }),
    ]);
    const rankings = [
      { weight: FUSION_WEIGHTS.words, hits: exact.hits },
      { weight: FUSION_WEIGHTS.stems, hits: stems.hits },
      { weight: FUSION_WEIGHTS.meaning, hits: neighbours },
    ];
    const isFused = stems.matchCount <= stems.hits.length;
    return {
      hits: fuseRankings(rankings),
      isLowerBound: rankings.some(({ hits }) => hits.length >= HYBRID_DEPTH),
      matcher: createStemMatcher(stems.groups),
      remainingSearch: isFused || !stems.words ? undefined : { ...search, words: stems.words },
      matchCount: stems.matchCount,
    };
  }

  /** Ranks the matches by stems that are not among the fused hits. A page may have fewer than `limit` of them. */
  async function rankRemaining(
    search: RankedSearch | undefined,
    { hits, newestId }: { hits: readonly Hit[]; newestId: number },
    start: Position | undefined,
    limit: number,
  ): Promise<HybridPage> {
    if (search === undefined) return { page: [], next: undefined };
    const fusedIds = new Set(hits.map(({ id }) => id));
    const fusedGroups = new Set(hits.map(({ group }) => group));
    const isFused = ({ id, group }: Hit) =>
      fusedIds.has(id) || (search.shouldFold === true && group !== null && fusedGroups.has(group));
    for (let position = start; ;) {
      const ranked = await rankPage(db, search, { limit, newestId, start: position });
      const page = ranked.hits.filter((hit) => !isFused(hit)).map((hit) => ({ ...hit, rank: 0 }));
      if (ranked.next === undefined) return { page, next: undefined };
      if (page.length > 0) return { page, next: { rest: { start: ranked.next } } };
      position = ranked.next;
    }
  }

  /** Reads more neighbours until the page is full or the maximum is reached. */
  async function findFoldedNeighbours(query: NearestQuery): Promise<Neighbour[]> {
    for (let limit = query.limit * READ_GROWTH_FACTOR; ; limit *= READ_GROWTH_FACTOR) {
      const neighbours = await findNearest(db, { ...query, limit });
      const foldedNeighbours = foldGroups(neighbours);
      const isLastRead =
        neighbours.length < limit || limit * READ_GROWTH_FACTOR > MAX_NEIGHBOURS_READ;
      if (foldedNeighbours.length >= query.limit || isLastRead)
        return foldedNeighbours.slice(0, query.limit);
    }
  }

  return {
    /**
     * Searches by words, and ranks by cover density. Specification 001, Behaviour rules.
     * @throws ProblemError `validation_failed` if a filter is invalid, or if the cursor is invalid or belongs to
     *   a different search.
     */
    async fulltext(
      request: FulltextSearchRequest,
    ): Promise<WithoutDuration<FulltextSearchResponse>> {
      const { text, limit, shouldFold, isMarked, requestedFilters } = readRequest(request);
      const markedWords = isMarked ? new Set(text.split(' ')) : undefined;
      const cursor = createFulltextCursor(requestedFilters, 'fulltext', text, shouldFold);
      const position = cursor.read(request.cursor);
      const filters = await resolveFilters(db, requestedFilters);
      const { currency } = filters;
      if (text === '') return { ...EMPTY_PAGE, currency };
      const words = createExactQuery(text);
      const newestId = await readNewestId(db, position?.block.newestId);
      const page = await rankPage(
        db,
        { words, filters, shouldFold },
        { limit, newestId, start: position },
      );
      return {
        items: await presentHits(page.hits, { ...filters, shouldFold }, markedWords),
        total: { value: page.matchCount, relation: page.isLowerBound ? 'gte' : 'eq' },
        currency,
        next_cursor: page.next === undefined ? null : cursor.write(page.next),
      };
    },

    /**
     * Fuses the rankings by exact words, stems and meaning: the nth listing of each scores weight / (10 + n) (reciprocal
     * rank fusion). The other matches by stems follow with rank 0. Limits in the query are filters, unless the request has
     * one of the kind.
     * @throws ProblemError `validation_failed`, `model_unavailable`, `model_failed`.
     */
    async hybrid(
      request: FulltextSearchRequest,
      signal: AbortSignal,
    ): Promise<WithoutDuration<FulltextSearchResponse>> {
      const { text, limit, shouldFold, isMarked, requestedFilters } = readRequest(request);
      const cursor = createHybridCursor(requestedFilters, 'hybrid', text, shouldFold);
      const position = cursor.read(request.cursor);
      const analysis = analyzeQuery(request.query);
      const understood = selectUnderstood(analysis.limits, requestedFilters);
      const filters = await resolveFilters(db, { ...requestedFilters, ...understood });
      const { currency } = filters;
      if (text === '') return { ...EMPTY_PAGE, currency };
      const queryVector = await embedQuery(model, request.query, signal);
      const newestId = await readNewestId(db, position?.newestId);
      const ranking = await rankHybrid({ text, newestId }, analysis, filters, queryVector);
      const hits = shouldFold ? foldGroups(ranking.hits) : ranking.hits;
      const remainingSearch = ranking.remainingSearch && { ...ranking.remainingSearch, shouldFold };
      const { page, next } =
        position?.rest === undefined
          ? selectFused(hits, position?.lastHit, limit, remainingSearch !== undefined)
          : await rankRemaining(
              remainingSearch,
              { hits: ranking.hits, newestId },
              position.rest.start,
              limit,
            );
      return {
        items: await presentHits(
          page,
          { ...filters, shouldFold },
          isMarked ? ranking.matcher : undefined,
        ),
        total: {
          value: Math.max(hits.length, shouldFold ? 0 : ranking.matchCount),
          relation: ranking.isLowerBound ? 'gte' : 'eq',
        },
        currency,
        ...(Object.keys(understood).length > 0 && { understood }),
        next_cursor: next === undefined ? null : cursor.write({ ...next, newestId }),
      };
    },

    /**
     * Finds the listings nearest to a text, an embedding or another listing.
     * @throws ProblemError `validation_failed`, `listing_not_found`, `listing_not_embedded`, `model_unavailable`,
     *   `model_failed`.
     */
    async similar(
      request: SimilarSearchRequest,
      signal: AbortSignal,
    ): Promise<WithoutDuration<SimilarSearchResponse>> {
      const { query, embedding, listing_id, limit = DEFAULT_LIMIT, ...searchOptions } = request;
      const { fold_duplicates: shouldFold = false, ...requestedFilters } = searchOptions;
      const filters = await resolveFilters(db, requestedFilters);
      const { currency } = filters;
      const targetCount = [query, embedding, listing_id].filter(
        (value) => value !== undefined,
      ).length;
      if (targetCount !== 1) {
        const message = `must have exactly one of query, embedding and listing_id, not ${targetCount}`;
        throw problem('validation_failed', { errors: [{ path: 'body', message }] });
      }
      if (query !== undefined && normalizeText(query) === '') return { items: [], currency };
      const queryVector =
        query === undefined
          ? await loadVector(db, embedding, listing_id)
          : await embedQuery(model, query, signal);
      const nearestQuery = { ...queryVector, filters, excludedId: listing_id, limit };
      const neighbours = await (shouldFold
        ? findFoldedNeighbours(nearestQuery)
        : findNearest(db, nearestQuery));
      const results = await loadHits(db, neighbours, { ...filters, shouldFold });
      return {
        items: results.map(({ hit, result }) => ({ ...result, distance: hit.distance })),
        currency,
      };
    },

    /**
     * Returns the listings among the given IDs that a full-text search finds, in the order of the IDs.
     * @throws ProblemError `validation_failed` if a filter is invalid.
     */
    async matches(request: MatchesRequest): Promise<WithoutDuration<MatchesResponse>> {
      const { ids, query, ...requestedFilters } = request;
      const filters = await resolveFilters(db, requestedFilters);
      const { currency } = filters;
      const text = query === undefined ? undefined : normalizeText(query);
      if (text === '') return { items: [], currency };
      const condition =
        text === undefined
          ? whereFilters(filters)
          : sql<SqlBool>`${whereFilters(filters)} and words @@ ${createExactQuery(text).query}`;
      const hits = await loadHits(
        db,
        ids.map((id) => ({ id })),
        { ...filters, condition },
      );
      return { items: hits.map(({ result }) => result), currency };
    },
  };
}

/** Names of ranges whose bounds a query may state. */
const UNDERSTOOD_RANGES = ['price', 'price_per_m2', 'area', 'rooms', 'floor'] as const;

/** Returns the limits of a query that the filters of its request do not set; none if they exclude each other. */
function selectUnderstood(limits: QueryLimits, filters: SearchFilters): QueryLimits {
  const isGiven = (names: readonly (keyof SearchFilters)[]) =>
    names.some((name) => filters[name] !== undefined);
  const understood = { ...limits };
  if (isGiven(['city', 'district', 'region', 'place_ids', 'near', 'bbox'])) delete understood.near;
  for (const range of UNDERSTOOD_RANGES) {
    const [min, max] = [`${range}_min`, `${range}_max`] as const;
    if (isGiven([min, max])) {
      delete understood[min];
      delete understood[max];
    }
    if ((understood[min] ?? 0) > (understood[max] ?? Infinity)) return {};
  }
  if (isGiven(['currency', 'price_min', 'price_max', 'price_per_m2_min', 'price_per_m2_max']))
    delete understood.currency;
  return understood;
}

function fuseRankings(
  rankings: readonly { weight: number; hits: readonly Omit<Hit, 'rank'>[] }[],
): Hit[] {
  const fusedHits = new Map<number, Hit>();
  for (const { weight, hits } of rankings) {
    for (const [index, { id, group }] of hits.entries()) {
      const rank = (fusedHits.get(id)?.rank ?? 0) + weight / (FUSION_CONSTANT + index + 1);
      fusedHits.set(id, { id, group, rank });
    }
  }
  return [...fusedHits.values()].toSorted(compareByRank);
}

/** Returns the page of fused hits after a hit. The remaining matches follow the last page, if there are any. */
function selectFused(
  hits: readonly Hit[],
  lastShown: Omit<Hit, 'group'> | undefined,
  limit: number,
  hasRemaining: boolean,
): HybridPage {
  const remainingHits =
    lastShown === undefined ? hits : hits.filter((hit) => compareByRank(lastShown, hit) < 0);
  const page = remainingHits.slice(0, limit);
  const lastHit = page.at(-1);
  if (remainingHits.length > limit && lastHit !== undefined)
    return { page, next: { lastHit: { rank: lastHit.rank, id: lastHit.id } } };
  return { page, next: hasRemaining ? { rest: {} } : undefined };
}

/** Removes all hits of each group of likely duplicates except the first. */
function foldGroups<FoundHit extends { group: number | null }>(
  hits: readonly FoundHit[],
): FoundHit[] {
  const seenGroups = new Set<number>();
  return hits.filter(({ group }) => {
    if (group === null) return true;
    if (seenGroups.has(group)) return false;
    seenGroups.add(group);
    return true;
  });
}

const idSchema = Type.Integer({ minimum: 0, maximum: MAX_ID });
const hitSchema = Type.Object(
  { rank: Type.Number({ minimum: 0, maximum: 1e30 }), id: idSchema },
  { additionalProperties: false },
);
const positionSchema = Type.Object(
  {
    block: Type.Object(
      {
        part: choice(['all', 'title', 'rest']),
        firstId: idSchema,
        lastId: idSchema,
        newestId: idSchema,
        countBefore: idSchema,
      },
      { additionalProperties: false },
    ),
    lastHit: Type.Optional(hitSchema),
  },
  { additionalProperties: false },
);
const createFulltextCursor = defineSearchCursor(positionSchema);

/**
 * Position after a fused hit, or among the remaining matches. `newestId` excludes newer listings, which would shift the
 * ranks of later pages.
 */
const hybridPositionSchema = Type.Object(
  {
    newestId: idSchema,
    lastHit: Type.Optional(hitSchema),
    rest: Type.Optional(
      Type.Object({ start: Type.Optional(positionSchema) }, { additionalProperties: false }),
    ),
  },
  { additionalProperties: false },
);
type HybridPosition = Omit<Static<typeof hybridPositionSchema>, 'newestId'>;
type HybridPage = { page: Hit[]; next: HybridPosition | undefined };
const createHybridCursor = defineSearchCursor(hybridPositionSchema);

/** Returns the parts of a search by words, with the query normalized. */
function readRequest(request: FulltextSearchRequest) {
  const {
    query,
    limit = DEFAULT_LIMIT,
    cursor: _cursor,
    highlight: isMarked = false,
    ...rest
  } = request;
  const { fold_duplicates: shouldFold = false, ...requestedFilters } = rest;
  const text = normalizeText(query);
  return { text, limit, shouldFold, requestedFilters, isMarked };
}

async function loadVector(
  db: Kysely<Tables>,
  embedding: readonly number[] | undefined,
  listingId: number | undefined,
): Promise<QueryVector> {
  if (listingId !== undefined) {
    const row = await db
      .selectFrom('property_listings')
      .select(['embedding', 'embedding_model'])
      .where('id', '=', listingId)
      .executeTakeFirst();
    if (row === undefined) throw problem('listing_not_found');
    if (row.embedding === null) throw problem('listing_not_embedded');
    return { vector: row.embedding, embeddingModel: row.embedding_model };
  }
  const vector = toUnitVector(embedding ?? []);
  if (vector !== undefined) return { vector, embeddingModel: null };
  const message = 'must not be all zeros: such a vector has no direction';
  throw problem('validation_failed', { errors: [{ path: 'body/embedding', message }] });
}
