import { createHash } from 'node:crypto';
import { createCursorCodec } from '@oselya/kit';
import { type Expression, type Kysely, sql, type SqlBool } from 'kysely';
import { Type } from 'typebox';
import { problem } from '../errors.ts';
import { type Listing, listingColumns, presentListing } from '../listing/listing.ts';
import { MAX_ID } from '../schemas.ts';
import type { Tables } from '../tables.ts';
import { normalizeText } from '../text.ts';
import { type ResolvedFilters, resolveFilters, whereFilters } from './filters.ts';
import { highlight } from './highlight.ts';
import {
  type QueryEmbedder,
  embedQuery,
  findNearest,
  type NearestQuery,
  type Neighbour,
  type QueryVector,
  toUnitVector,
} from './nearest.ts';
import {
  compareByRank,
  type Hit,
  type RankedHits,
  rankMatches,
  type WordQuery,
} from './ranking.ts';
import {
  DEFAULT_LIMIT,
  type FulltextSearchRequest,
  type FulltextSearchResponse,
  HYBRID_DEPTH,
  type MatchesRequest,
  type MatchesResponse,
  MAX_NAMED_DUPLICATES,
  MAX_RANKED_MATCHES,
  type SearchFilters,
  type SimilarSearchRequest,
  type SimilarSearchResponse,
} from './schemas.ts';

export type SearchDeps = { db: Kysely<Tables>; model: QueryEmbedder };

type WithoutDuration<Response> = Omit<Response, 'took_ms'>;

type Ranking = RankedHits & { isLowerBound: boolean };

/** Constant of reciprocal rank fusion. With a smaller constant, the first positions dominate. Contract 4, Search. */
const FUSION_CONSTANT = 60;

/** Factor by which each attempt to fill a page without duplicates reads more neighbours. */
const READ_GROWTH_FACTOR = 2;
/** Maximum number of neighbours to read for a page without duplicates; also the maximum of `ef_search`. */
const MAX_NEIGHBOURS_READ = 1000;

/**
 * Creates the search service. The signal of a search aborts when the client disconnects. A query without words finds
 * nothing. The model is called before the database, so that no connection is held during the call. Contract 4, Search.
 */
export function createSearchService({ db, model }: SearchDeps) {
  async function rankByWords(query: Omit<WordQuery, 'maxMatches'>): Promise<Ranking> {
    const ranking = await rankMatches(db, { ...query, maxMatches: MAX_RANKED_MATCHES });
    return { ...ranking, isLowerBound: ranking.hits.length >= MAX_RANKED_MATCHES };
  }

  async function rankByWordsAndMeaning(
    query: Omit<WordQuery, 'maxMatches'>,
    queryVector: QueryVector,
  ): Promise<Ranking> {
    const [wordRanking, neighbours] = await Promise.all([
      rankByWords(query),
      findNearest(db, {
        ...queryVector,
        filters: query.filters,
        limit: HYBRID_DEPTH,
        newestId: query.newestId,
      }),
    ]);
    const { newestId } = wordRanking;
    const wordHits = wordRanking.hits.slice(0, HYBRID_DEPTH);
    // A listing that was added between the two queries must not appear on any page.
    const visibleNeighbours = neighbours.filter(({ id }) => id <= newestId);
    const isLowerBound = Math.max(wordHits.length, neighbours.length) >= HYBRID_DEPTH;
    return { hits: fuseRankings([wordHits, visibleNeighbours]), newestId, isLowerBound };
  }

  async function searchRanked(
    kind: 'fulltext' | 'hybrid',
    request: FulltextSearchRequest,
    signal?: AbortSignal,
  ): Promise<WithoutDuration<FulltextSearchResponse>> {
    const {
      query,
      limit = DEFAULT_LIMIT,
      cursor,
      highlight: shouldHighlight,
      ...searchOptions
    } = request;
    const { fold_duplicates: shouldFold = false, ...requestedFilters } = searchOptions;
    const filters = await resolveFilters(db, requestedFilters);
    const { currency } = filters;
    const normalizedQuery = normalizeText(query);
    const searchHash = hashSearch(requestedFilters, kind, normalizedQuery, shouldFold);
    const cursorPosition = cursor === undefined ? undefined : readCursor(searchHash, cursor);
    if (normalizedQuery === '')
      return { items: [], total: { value: 0, relation: 'eq' }, currency, next_cursor: null };

    const wordQuery = { text: normalizedQuery, filters, newestId: cursorPosition?.newestId };
    const ranking =
      signal === undefined
        ? await rankByWords(wordQuery)
        : await rankByWordsAndMeaning(wordQuery, await embedQuery(model, query, signal));
    const { newestId, isLowerBound } = ranking;
    const hits = shouldFold ? foldGroups(ranking.hits) : ranking.hits;
    const remainingHits =
      cursorPosition === undefined
        ? hits
        : hits.filter((hit) => compareByRank(cursorPosition, hit) < 0);
    const page = remainingHits.slice(0, limit);
    const lastHit = remainingHits.length > limit ? page.at(-1) : undefined;
    const words = shouldHighlight === true ? new Set(normalizedQuery.split(' ')) : undefined;
    const results = await loadResults(db, page, filters, shouldFold);
    return {
      items: results.map(({ hit, ...result }) => {
        const { title, description } = result.listing;
        const listingText = title === null ? description : `${title}\n${description}`;
        const highlightField = words && { highlight: highlight(listingText, words) };
        return { ...result, rank: hit.rank, ...highlightField };
      }),
      total: { value: hits.length, relation: isLowerBound ? 'gte' : 'eq' },
      currency,
      next_cursor:
        lastHit === undefined
          ? null
          : cursorCodec.write({ search: searchHash, rank: lastHit.rank, id: lastHit.id, newestId }),
    };
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
    fulltext: (request: FulltextSearchRequest) => searchRanked('fulltext', request),

    /**
     * Fuses the rankings by words and by meaning: a listing scores 1 / (60 + position) in each (reciprocal rank
     * fusion).
     * @throws ProblemError `validation_failed`, `model_unavailable`, `model_failed`.
     */
    hybrid: (request: FulltextSearchRequest, signal: AbortSignal) =>
      searchRanked('hybrid', request, signal),

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
      const results = await loadResults(db, neighbours, filters, shouldFold);
      return {
        items: results.map(({ hit, ...result }) => ({ ...result, distance: hit.distance })),
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
      const { currency, conversion } = filters;
      const normalizedQuery = query === undefined ? undefined : normalizeText(query);
      if (normalizedQuery === '') return { items: [], currency };
      const wordCondition = sql<boolean>`search_vector @@ plainto_tsquery('simple', ${normalizedQuery})`;
      const condition =
        normalizedQuery === undefined
          ? whereFilters(filters)
          : sql<SqlBool>`${whereFilters(filters)} and ${wordCondition}`;
      const listingsById = await loadListings(db, ids, { condition, conversion });
      const listings = ids.flatMap((id) => listingsById.get(id) ?? []);
      return { items: listings.map((listing) => ({ listing })), currency };
    },
  };
}

function fuseRankings(rankings: readonly (readonly Omit<Hit, 'rank'>[])[]): Hit[] {
  const fusedHits = new Map<number, Hit>();
  for (const ranking of rankings) {
    for (const [index, { id, group }] of ranking.entries()) {
      const rank = (fusedHits.get(id)?.rank ?? 0) + 1 / (FUSION_CONSTANT + index + 1);
      fusedHits.set(id, { id, group, rank });
    }
  }
  return [...fusedHits.values()].toSorted(compareByRank);
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
const cursorError = {
  path: 'body/cursor',
  message: 'must be the next_cursor of a page of the same search',
};

/**
 * Codec for the search hash and the last hit, whose ID breaks ties between ranks. `newestId` excludes newer listings,
 * which would shift the ranks of later pages.
 */
const cursorCodec = createCursorCodec(
  Type.Object(
    { search: Type.String(), rank: Type.Number(), id: idSchema, newestId: idSchema },
    { additionalProperties: false },
  ),
  cursorError,
);

/** Reads a cursor. Throws ProblemError `validation_failed` if it is invalid or belongs to a different search. */
function readCursor(searchHash: string, encodedCursor: string) {
  const cursor = cursorCodec.read(encodedCursor);
  if (cursor?.search !== searchHash) throw problem('validation_failed', { errors: [cursorError] });
  return cursor;
}

/** Returns a hash of a search, which does not depend on the order of the filters. */
function hashSearch(filters: SearchFilters, ...parts: readonly unknown[]): string {
  const json = JSON.stringify(filters, Object.keys(filters).toSorted());
  const hash = createHash('sha256').update(JSON.stringify([json, ...parts]));
  return hash.digest('base64url').slice(0, 16);
}

/** Loads the listings of hits in the same order. With `shouldFold`, adds the other members of each group. */
async function loadResults<FoundHit extends { id: number; group: number | null }>(
  db: Kysely<Tables>,
  hits: readonly FoundHit[],
  filters: ResolvedFilters,
  shouldFold: boolean,
): Promise<{ hit: FoundHit; listing: Listing; duplicates?: number[] }[]> {
  const ids = hits.map((hit) => hit.id);
  const listings = await loadListings(db, ids, filters);
  const groups = hits.flatMap(({ group }) => group ?? []);
  const groupMembers = shouldFold ? await listGroupMembers(db, groups, filters) : undefined;
  return hits.flatMap((hit) => {
    const listing = listings.get(hit.id);
    if (listing === undefined) return [];
    if (groupMembers === undefined) return [{ hit, listing }];
    const group = (hit.group === null ? undefined : groupMembers.get(hit.group)) ?? [];
    const duplicates = group.filter((id) => id !== hit.id).slice(0, MAX_NAMED_DUPLICATES);
    return [{ hit, listing, duplicates }];
  });
}

/** Returns the listings with these IDs that meet a condition, by ID, with converted prices. */
async function loadListings(
  db: Kysely<Tables>,
  ids: readonly number[],
  {
    condition = sql`true`,
    conversion,
  }: { condition?: Expression<SqlBool> } & Pick<ResolvedFilters, 'conversion'>,
): Promise<Map<number, Listing>> {
  if (ids.length === 0) return new Map();
  const rows = await db
    .selectFrom('property_listings')
    .select(listingColumns)
    .where('id', 'in', ids)
    .where(condition)
    .execute();
  return new Map(rows.map((row) => [row.id, presentListing(row, conversion)]));
}

/**
 * Returns the IDs of the first listings of groups of likely duplicates, by group, including listings that the search
 * did not find. Archived listings are included only if the search includes them.
 */
async function listGroupMembers(
  db: Kysely<Tables>,
  groups: readonly number[],
  { include_archived = false }: SearchFilters,
): Promise<Map<number, number[]>> {
  if (groups.length === 0) return new Map();
  // Select one more than the maximum, because the hit itself may be among them.
  const { rows } = await sql<{ group: number; ids: number[] }>`
    select requested.id as "group", (
      select coalesce(jsonb_agg(id order by id), '[]') from (
        select id from property_listings
        where duplicate_group = requested.id and (${include_archived} or archived_at is null)
        order by id limit ${MAX_NAMED_DUPLICATES + 1}) as member) as ids
    from unnest(${[...new Set(groups)]}::bigint[]) as requested (id)`.execute(db);
  return new Map(rows.map(({ group, ids }) => [group, ids]));
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
