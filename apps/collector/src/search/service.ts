import { createHash } from 'node:crypto';
import { createCursorCodec } from '@oselya/kit';
import { type Expression, type Kysely, sql, type SqlBool } from 'kysely';
import { Type } from 'typebox';
import { problem } from '../errors.ts';
import { type Listing, listingColumns, presentListing } from '../listing/listing.ts';
import { MAX_ID } from '../schemas.ts';
import type { Tables } from '../tables.ts';
import { normaliseText } from '../text.ts';
import { validateRanges, whereFilters } from './filters.ts';
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
const RANK_CONSTANT = 60;

/** Growth factor of the number of neighbours that are read until a page without duplicates is full. */
const READ_GROWTH = 2;
/** Maximum number of neighbours to read for a page without duplicates; also the maximum of `ef_search`. */
const MAX_READ_NEIGHBOURS = 1000;

/**
 * Creates the search service. Each signal aborts when the client disconnects. A query without words finds nothing.
 * The model is called before the database, so that it holds no connection. Contract 4, Search.
 */
export function createSearchService({ db, model }: SearchDeps) {
  async function rankByWords(query: Omit<WordQuery, 'bound'>): Promise<Ranking> {
    const found = await rankMatches(db, { ...query, bound: MAX_RANKED_MATCHES });
    return { ...found, isLowerBound: found.ranked.length >= MAX_RANKED_MATCHES };
  }

  async function rankByWordsAndMeaning(
    query: Omit<WordQuery, 'bound'>,
    target: QueryVector,
  ): Promise<Ranking> {
    const { filters, newestId: known } = query;
    const [byWords, neighbours] = await Promise.all([
      rankByWords(query),
      findNearest(db, { ...target, filters, limit: HYBRID_DEPTH, newestId: known }),
    ]);
    const { newestId } = byWords;
    const matches = byWords.ranked.slice(0, HYBRID_DEPTH);
    // A listing that was added between the two queries must not appear on any page.
    const near = neighbours.filter(({ id }) => id <= newestId);
    const isLowerBound = Math.max(matches.length, neighbours.length) >= HYBRID_DEPTH;
    return { ranked: fuseRankings([matches, near]), newestId, isLowerBound };
  }

  async function searchRanked(
    kind: 'fulltext' | 'hybrid',
    request: FulltextSearchRequest,
    signal?: AbortSignal,
  ): Promise<WithoutDuration<FulltextSearchResponse>> {
    const { query, limit = DEFAULT_LIMIT, cursor, highlight: shouldHighlight, ...rest } = request;
    const { fold_duplicates: isFolded = false, ...filters } = rest;
    validateRanges(filters);
    const text = normaliseText(query);
    const searchHash = hashSearch(filters, kind, text, isFolded);
    const after = cursor === undefined ? undefined : readCursor(searchHash, cursor);
    if (text === '') return { items: [], total: { value: 0, relation: 'eq' }, next_cursor: null };

    const wordQuery = { text, filters, newestId: after?.newestId };
    const { ranked, newestId, isLowerBound } =
      signal === undefined
        ? await rankByWords(wordQuery)
        : await rankByWordsAndMeaning(wordQuery, await embedQuery(model, query, signal));
    const hits = isFolded ? foldGroups(ranked) : ranked;
    const left = after === undefined ? hits : hits.filter((hit) => compareByRank(after, hit) < 0);
    const page = left.slice(0, limit);
    const last = left.length > limit ? page.at(-1) : undefined;
    const words = shouldHighlight === true ? new Set(text.split(' ')) : undefined;
    const results = await loadResults(db, page, isFolded ? filters : undefined);
    return {
      items: results.map(({ hit, ...result }) => {
        const { title, description } = result.listing;
        const passage = title === null ? description : `${title}\n${description}`;
        const highlighted = words && { highlight: highlight(passage, words) };
        return { ...result, rank: hit.rank, ...highlighted };
      }),
      total: { value: hits.length, relation: isLowerBound ? 'gte' : 'eq' },
      next_cursor:
        last === undefined
          ? null
          : cursors.write({ search: searchHash, rank: last.rank, id: last.id, newestId }),
    };
  }

  /** Reads more neighbours until the page is full or the maximum is reached. */
  async function findFolded(query: NearestQuery): Promise<Neighbour[]> {
    for (let limit = query.limit * READ_GROWTH; ; limit *= READ_GROWTH) {
      const neighbours = await findNearest(db, { ...query, limit });
      const folded = foldGroups(neighbours);
      const isAll = neighbours.length < limit || limit * READ_GROWTH > MAX_READ_NEIGHBOURS;
      if (folded.length >= query.limit || isAll) return folded.slice(0, query.limit);
    }
  }

  return {
    /**
     * Searches by words and ranks by cover density. Specification 001, Behaviour rules.
     * @throws ProblemError `validation_failed` if a range is empty or the cursor belongs to another search.
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
      const { query, embedding, listing_id, limit = DEFAULT_LIMIT, ...rest } = request;
      const { fold_duplicates: isFolded = false, ...filters } = rest;
      validateRanges(filters);
      const count = [query, embedding, listing_id].filter((value) => value !== undefined).length;
      if (count !== 1) {
        const message = `must have exactly one of query, embedding and listing_id, not ${count}`;
        throw problem('validation_failed', { errors: [{ path: 'body', message }] });
      }
      if (query !== undefined && normaliseText(query) === '') return { items: [] };
      const target =
        query === undefined
          ? await loadVector(db, embedding, listing_id)
          : await embedQuery(model, query, signal);
      const nearest = { ...target, filters, exclude: listing_id, limit };
      const neighbours = await (isFolded ? findFolded(nearest) : findNearest(db, nearest));
      const results = await loadResults(db, neighbours, isFolded ? filters : undefined);
      return {
        items: results.map(({ hit, ...result }) => ({ ...result, distance: hit.distance })),
      };
    },

    /**
     * Returns the listings among the given IDs that a full-text search finds, in the order of the IDs.
     * @throws ProblemError `validation_failed` if a range is empty.
     */
    async matches(request: MatchesRequest): Promise<WithoutDuration<MatchesResponse>> {
      const { ids, query, ...filters } = request;
      validateRanges(filters);
      const text = query === undefined ? undefined : normaliseText(query);
      if (text === '') return { items: [] };
      const hasWords = sql<boolean>`search_vector @@ plainto_tsquery('simple', ${text})`;
      const condition =
        text === undefined
          ? whereFilters(filters)
          : sql<SqlBool>`${whereFilters(filters)} and ${hasWords}`;
      const found = await loadListings(db, ids, condition);
      const listings = ids.flatMap((id) => found.get(id) ?? []);
      return { items: listings.map((listing) => ({ listing })) };
    },
  };
}

function fuseRankings(rankings: readonly (readonly Omit<Hit, 'rank'>[])[]): Hit[] {
  const fused = new Map<number, Hit>();
  for (const ranking of rankings) {
    for (const [index, { id, group }] of ranking.entries()) {
      const rank = (fused.get(id)?.rank ?? 0) + 1 / (RANK_CONSTANT + index + 1);
      fused.set(id, { id, group, rank });
    }
  }
  return [...fused.values()].toSorted(compareByRank);
}

/** Removes all hits of each group of likely duplicates except the first. */
function foldGroups<FoundHit extends { group: number | null }>(
  hits: readonly FoundHit[],
): FoundHit[] {
  const seen = new Set<number>();
  return hits.filter(({ group }) => {
    if (group === null) return true;
    if (seen.has(group)) return false;
    seen.add(group);
    return true;
  });
}

const idSchema = Type.Integer({ minimum: 0, maximum: MAX_ID });
const invalidCursor = {
  path: 'body/cursor',
  message: 'must be the next_cursor of a page of this same search',
};

/**
 * Cursors with a hash of the search and its last hit, whose ID breaks ties between ranks. `newestId` excludes newer
 * listings, which would shift the ranks of later pages.
 */
const cursors = createCursorCodec(
  Type.Object(
    { search: Type.String(), rank: Type.Number(), id: idSchema, newestId: idSchema },
    { additionalProperties: false },
  ),
  invalidCursor,
);

/** @throws ProblemError `validation_failed` if the cursor is invalid or belongs to another search. */
function readCursor(searchHash: string, text: string) {
  const cursor = cursors.read(text);
  if (cursor?.search !== searchHash)
    throw problem('validation_failed', { errors: [invalidCursor] });
  return cursor;
}

/** Identifies a search regardless of the order of its filters. */
function hashSearch(filters: SearchFilters, ...parts: readonly unknown[]): string {
  const json = JSON.stringify(filters, Object.keys(filters).toSorted());
  const hash = createHash('sha256').update(JSON.stringify([json, ...parts]));
  return hash.digest('base64url').slice(0, 16);
}

/** Loads the listings of hits in the same order. If `folded` is set, adds the other members of each group. */
async function loadResults<FoundHit extends { id: number; group: number | null }>(
  db: Kysely<Tables>,
  hits: readonly FoundHit[],
  folded: SearchFilters | undefined,
): Promise<{ hit: FoundHit; listing: Listing; duplicates?: number[] }[]> {
  const ids = hits.map((hit) => hit.id);
  const listings = await loadListings(db, ids);
  const groups = hits.flatMap(({ group }) => group ?? []);
  const members = folded && (await listGroupMembers(db, groups, folded));
  return hits.flatMap((hit) => {
    const listing = listings.get(hit.id);
    if (listing === undefined) return [];
    if (members === undefined) return [{ hit, listing }];
    const group = (hit.group === null ? undefined : members.get(hit.group)) ?? [];
    const duplicates = group.filter((id) => id !== hit.id).slice(0, MAX_NAMED_DUPLICATES);
    return [{ hit, listing, duplicates }];
  });
}

/** Returns the listings with these IDs that meet a condition, by ID. */
async function loadListings(
  db: Kysely<Tables>,
  ids: readonly number[],
  condition: Expression<SqlBool> = sql`true`,
): Promise<Map<number, Listing>> {
  if (ids.length === 0) return new Map();
  const rows = await db
    .selectFrom('property_listings')
    .select(listingColumns)
    .where('id', 'in', ids)
    .where(condition)
    .execute();
  return new Map(rows.map((row) => [row.id, presentListing(row)]));
}

/**
 * Returns the first listings of groups of likely duplicates, by group, including listings that the search did not
 * find.
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
    const stored = await db
      .selectFrom('property_listings')
      .select(['embedding', 'embedding_model'])
      .where('id', '=', listingId)
      .executeTakeFirst();
    if (stored === undefined) throw problem('listing_not_found');
    if (stored.embedding === null) throw problem('listing_not_embedded');
    return { vector: stored.embedding, embeddingModel: stored.embedding_model };
  }
  const vector = toUnitVector(embedding ?? []);
  if (vector !== undefined) return { vector, embeddingModel: null };
  const message = 'must not be all zeros: such a vector is near to nothing';
  throw problem('validation_failed', { errors: [{ path: 'body/embedding', message }] });
}
