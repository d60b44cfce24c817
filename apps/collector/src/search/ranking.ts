import { type Expression, type Kysely, type RawBuilder, sql, type SqlBool } from 'kysely';
import { MAX_ID } from '../schemas.ts';
import type { Tables } from '../tables.ts';
import { estimateListings } from './estimate.ts';
import {
  getBandStart,
  type IdRange,
  type ResolvedFilters,
  whereFilterTerms,
  whereIdTerms,
} from './filters.ts';
import { BLOCK_SHARE, MAX_SINGLE_BLOCK_FACTOR, MIN_RANKED_MATCHES } from './schemas.ts';

/** Listing with its rank and its group of likely duplicates. */
export type Hit = { id: number; rank: number; group: number | null };

/** Compares hits: higher ranks first, then newer listings. */
export function compareByRank(a: Omit<Hit, 'group'>, b: Omit<Hit, 'group'>): number {
  return b.rank - a.rank || b.id - a.id;
}

/** Words that a search looks for, as conditions and as a rank on `listing_index`. */
export type WordQuery = {
  /** Column with the words of the listings. */
  column: 'words' | 'stems';
  query: RawBuilder<unknown>;
  /** Rank of a match, as a `real`. */
  rank: RawBuilder<number>;
  /** Query on `stems` for listings with all words in the title. */
  titleQuery?: RawBuilder<unknown> | undefined;
};

/** Search by words. */
export type RankedSearch = {
  words: WordQuery;
  filters: ResolvedFilters;
  /** Shows only the best listing of each group of likely duplicates. */
  shouldFold?: boolean;
  /** Number of matches up to which all are ranked together; `MIN_RANKED_MATCHES` by default. */
  minRankedMatches?: number | undefined;
};

/**
 * Listings that are ranked together. If a search has more matches than can be ranked at once, blocks follow each other:
 * first listings with all words in the title, then the rest; each from the newest to the oldest.
 */
export type Block = IdRange & {
  part: 'all' | 'title' | 'rest';
  /** ID of the newest listing when the search began: newer ones would shift the ranks of later pages. */
  newestId: number;
  /** Number of matches in earlier blocks. */
  countBefore: number;
};

/** Position in a ranking: a block, and its last shown hit. */
export type Position = { block: Block; lastHit?: Omit<Hit, 'group'> | undefined };

export type RankedPage = {
  hits: Hit[];
  /** Number of matches in the blocks up to this page. */
  matchCount: number;
  isLowerBound: boolean;
  /** Position after the last hit. Undefined on the last page. */
  next?: Position;
};

/** Smaller numbers, which only forged cursors have, are no `real`. */
const MIN_RANK = 1e-30;

/** Size of a block relative to its minimum, because matches are spread unevenly. */
const BLOCK_SIZE_FACTOR = 1.25;
/** Number of matches that are ranked at once at most, relative to the minimum, unless they share a band of IDs. */
const MAX_BLOCK_FACTOR = 4;

/**
 * Returns a page of the matches, ranked by cover density. Up to `MIN_RANKED_MATCHES` matches are ranked together, more in
 * blocks, and every match is on some page.
 * @param options.newestId Excludes listings with a larger ID (`readNewestId`).
 * @param options.start Position after the previous page.
 */
export async function rankPage(
  db: Kysely<Tables>,
  search: RankedSearch,
  { limit, newestId, start }: { limit: number; newestId: number; start?: Position | undefined },
): Promise<RankedPage> {
  let position =
    start === undefined
      ? { block: await createFirstBlock(db, search, newestId) }
      : { ...start, block: limitBlock(start.block, newestId) };
  const hits: Hit[] = [];
  let isNarrowed = false;
  for (;;) {
    const { block } = position;
    const missingCount = limit - hits.length;
    const ranked = await rankBlock(db, search, position, missingCount + 1);
    const { hits: blockHits, count } = ranked;
    // The planner's estimate may be wrong, and a client may forge a cursor.
    if (ranked.isTooLarge) {
      position = { block: narrow(block), lastHit: position.lastHit };
      isNarrowed = true;
      continue;
    }
    const widerBlock =
      position.lastHit === undefined && !isNarrowed
        ? widen(block, count, search.minRankedMatches)
        : undefined;
    if (widerBlock !== undefined) {
      position = { block: widerBlock };
      continue;
    }
    const matchCount = block.countBefore + count;
    const nextBlock =
      block.part === 'title' && block.firstId === 0
        ? await createFirstBlock(db, search, newestId, { part: 'rest', countBefore: matchCount })
        : createNextBlock(block, matchCount);
    const result = { hits, matchCount, isLowerBound: nextBlock !== undefined };
    hits.push(...blockHits.slice(0, missingCount));
    if (blockHits.length > missingCount)
      return { ...result, next: { block, lastHit: toPosition(hits.at(-1)) } };
    if (nextBlock === undefined) return result;
    if (hits.length === limit) return { ...result, next: { block: nextBlock } };
    position = { block: nextBlock };
    isNarrowed = false;
  }
}

const toPosition = (hit: Hit | undefined) => hit && { rank: hit.rank, id: hit.id };

async function createFirstBlock(
  db: Kysely<Tables>,
  { filters, words, minRankedMatches = MIN_RANKED_MATCHES }: RankedSearch,
  newestId: number,
  { part, countBefore = 0 }: { part?: 'rest'; countBefore?: number } = {},
): Promise<Block> {
  const { matchCount } = await estimateListings(db, filters, whereWords(words));
  const block: Block = {
    part: part ?? 'all',
    firstId: 0,
    lastId: newestId,
    newestId,
    countBefore,
  };
  if (matchCount <= minRankedMatches * MAX_SINGLE_BLOCK_FACTOR) return block;
  const span = (newestId * minRankedMatches * BLOCK_SHARE * BLOCK_SIZE_FACTOR) / matchCount;
  const firstId = getBandStart(Math.max(0, newestId - span));
  // Few of the listings have all words in the title, so the block of these is much wider.
  return words.titleQuery === undefined || part === 'rest'
    ? { ...block, part: 'rest', firstId }
    : { ...block, part: 'title', firstId: getBandStart(Math.max(0, newestId - span * 4)) };
}

/** Reads the ID of the newest listing up to a limit. A client's cursor supplies the limit, so it may be any number. */
export async function readNewestId(db: Kysely<Tables>, maxId?: number): Promise<number> {
  const { rows } = await sql<{ id: number }>`
    select coalesce(max(id), 0) as id from listing_index`.execute(db);
  return Math.min(rows[0]?.id ?? 0, maxId ?? Infinity);
}

/** Limits the IDs of a client's block to those that exist, so that no query names a huge number of bands. */
function limitBlock(block: Block, newestId: number): Block {
  const lastId = Math.min(block.lastId, newestId);
  return { ...block, lastId, newestId, firstId: getBandStart(Math.min(block.firstId, lastId)) };
}

/** Returns a block with more listings if a block has too few matches. */
function widen(
  block: Block,
  count: number,
  minRankedMatches = MIN_RANKED_MATCHES,
): Block | undefined {
  const minMatches = minRankedMatches * BLOCK_SHARE;
  if (count >= minMatches || block.firstId === 0) return undefined;
  const span = block.lastId + 1 - block.firstId;
  const factor = Math.max(2, (minMatches * BLOCK_SIZE_FACTOR) / Math.max(1, count));
  return { ...block, firstId: getBandStart(Math.max(0, block.lastId + 1 - span * factor)) };
}

/** Returns the newest quarter of a block that has too many matches. */
function narrow(block: Block): Block {
  const firstId = getBandStart(block.lastId - (block.lastId - block.firstId) / 4);
  return { ...block, firstId: firstId > block.firstId ? firstId : getBandStart(block.lastId) };
}

/** Returns the block of the same part after a block, as wide as this one. Undefined after the last one. */
function createNextBlock(block: Block, countBefore: number): Block | undefined {
  if (block.firstId === 0) return undefined;
  const lastId = block.firstId - 1;
  const span = block.lastId - block.firstId;
  return { ...block, firstId: getBandStart(Math.max(0, lastId - span)), lastId, countBefore };
}

const whereWords = ({ column, query }: WordQuery) => sql<SqlBool>`${sql.ref(column)} @@ ${query}`;

/**
 * Counts and ranks the matches of a block, and returns the first hits after the position. A block that is too large has
 * more matches than were counted.
 */
async function rankBlock(
  db: Kysely<Tables>,
  { words, filters, shouldFold = false, minRankedMatches = MIN_RANKED_MATCHES }: RankedSearch,
  { block, lastHit }: Position,
  limit: number,
): Promise<{ hits: Hit[]; count: number; isTooLarge: boolean }> {
  const isOneBand = getBandStart(block.lastId) <= block.firstId;
  const maxMatches = isOneBand ? MAX_ID : minRankedMatches * MAX_BLOCK_FACTOR;
  const shown = shouldFold
    ? sql`materialized (
        select distinct on (coalesce("group", -id)) * from matches
        order by coalesce("group", -id), rank desc, id desc)`
    : sql`not materialized (select * from matches)`;
  const isAfter =
    lastHit === undefined
      ? sql`true`
      : sql`(rank, id) < (${lastHit.rank < MIN_RANK ? 0 : lastHit.rank}::real, ${lastHit.id}::bigint)`;
  type BlockRow = { hits: [number, number, number | null][]; count: number; isTooLarge: boolean };
  const { rows } = await sql<BlockRow>`
    with matches as materialized (
      select id, ${words.rank} as rank, duplicate_group as "group"
      from listing_index
      where ${whereWords(words)} and ${whereFilterTerms(filters)} and ${whereInBlock(block, words)}
      limit ${sql.lit(maxMatches + 1)}),
    shown as ${shown}
    select (select count(*)::integer from shown) as count,
      (select count(*) > ${maxMatches} from matches) as "isTooLarge", (
      select coalesce(json_agg(json_build_array(id, rank, "group") order by rank desc, id desc), '[]')
      from (select * from shown where ${isAfter} order by rank desc, id desc limit ${limit}) as best) as hits`.execute(
    db,
  );
  const { hits, ...counts } = rows[0] ?? { hits: [], count: 0, isTooLarge: false };
  return { hits: hits.map(([id, rank, group]) => ({ id, rank, group })), ...counts };
}

/** Returns the condition that a listing is in a block. `id + 0` keeps the planner from scanning the ID index. */
function whereInBlock(block: Block, { titleQuery }: WordQuery): Expression<SqlBool> {
  const { part, firstId, lastId, newestId } = block;
  const isNotNewer = sql<SqlBool>`id + 0 <= ${lastId}::bigint`;
  const isInTitle = sql`stems @@ ${titleQuery ?? sql`''`}`;
  const conditions = [
    isNotNewer,
    ...(firstId === 0 ? [] : [sql<SqlBool>`id + 0 >= ${firstId}::bigint`]),
    ...(firstId === 0 && lastId === newestId ? [] : [whereIdTerms({ firstId, lastId })]),
    ...(part === 'title' ? [isInTitle] : []),
    ...(part === 'rest' && titleQuery !== undefined ? [sql`(${isInTitle}) is not true`] : []),
  ];
  return sql<SqlBool>`${sql.join(conditions, sql` and `)}`;
}
