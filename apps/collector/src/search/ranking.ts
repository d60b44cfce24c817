import { type Expression, type Kysely, type RawBuilder, sql, type SqlBool } from 'kysely';
import type { Tables } from '../tables.ts';
import {
  getBand,
  getFirstIdOfBand,
  whereInBands,
  whereFilterTerms,
  whereInNewestBands,
  listIndexConditions,
  type ResolvedFilters,
} from './filters.ts';

/** Listing with its rank and its group of likely duplicates. */
export type Hit = { id: number; rank: number; group: number | null };

/** Hits, and the ID of the newest listing that the search considered. */
export type RankedHits = { hits: Hit[]; newestId: number };

/** Compares hits: higher ranks first, then newer listings. */
export function compareByRank(a: Omit<Hit, 'group'>, b: Omit<Hit, 'group'>): number {
  return b.rank - a.rank || b.id - a.id;
}

export type WordQuery = {
  /** Normalized query with at least one word. */
  text: string;
  filters: ResolvedFilters;
  maxMatches: number;
  /** Excludes listings with a larger ID. Any number is allowed, because it comes from a client's cursor. */
  newestId?: number | undefined;
};

/** Number of ID bands that the first query reads. */
const FIRST_QUERY_BANDS = 2;
/** Bounds for the bands that a query adds, relative to the bands read so far. */
const BAND_GROWTH = { min: 0.5, max: 256 };
/** Maximum number of bands that a query for the oldest listings names. */
const MAX_NAMED_LAST_BANDS = 2048;
/**
 * Maximum number of bands that a query names, about 300 terms. The index compares each term with all others, so 65,000
 * terms take 6 s for ten matches. Beyond this number, matches are rare, and one query reads the remaining bands.
 */
const MAX_NAMED_BANDS = 2 ** 13;
/** Safety factor for the estimated number of bands, because matches are spread unevenly. */
const SAFETY_FACTOR = 1.25;

/**
 * Finds the newest listings that contain all words, at most `maxMatches`, and ranks them by cover density. Reads the
 * newest ID bands first, then more bands, depending on the number of matches. A frequent word costs little, and a rare
 * word costs one more query. There are at most about 25 queries.
 */
export async function rankMatches(db: Kysely<Tables>, query: WordQuery): Promise<RankedHits> {
  const { newestId, hits } = await findNewestMatches(db, query);
  const newestBand = getBand(newestId);
  let firstBand = Math.max(0, newestBand + 1 - FIRST_QUERY_BANDS);
  while (firstBand > 0 && hits.length < query.maxMatches) {
    const [bandsRead, hitCount] = [newestBand + 1 - firstBand, hits.length];
    const bandCount = countNextBands({ bandsRead, hitCount, maxMatches: query.maxMatches });
    const bandRange = { firstBand: Math.max(0, firstBand - bandCount), endBand: firstBand };
    const limit = query.maxMatches - hitCount;
    hits.push(...(await findMatches(db, { ...query, newestId, bandRange, limit })));
    firstBand = bandRange.firstBand;
  }
  return { hits: hits.toSorted(compareByRank), newestId };
}

/** Returns the number of bands to read next. The lower bound matters if all matches so far are recent. */
function countNextBands(progress: { bandsRead: number; hitCount: number; maxMatches: number }) {
  const { bandsRead, hitCount, maxMatches } = progress;
  const estimatedBands =
    hitCount === 0 ? Infinity : (bandsRead * (maxMatches - hitCount) * SAFETY_FACTOR) / hitCount;
  const bandCount = Math.ceil(
    Math.min(Math.max(estimatedBands, bandsRead * BAND_GROWTH.min), bandsRead * BAND_GROWTH.max),
  );
  return bandsRead < MAX_NAMED_BANDS ? Math.min(bandCount, MAX_NAMED_BANDS) : Infinity;
}

/**
 * Finds the matches in the newest bands and the newest ID in one query. A client's cursor supplies `newestId`, so the
 * query limits it to the last ID.
 */
async function findNewestMatches(
  db: Kysely<Tables>,
  { text, filters, maxMatches, newestId }: WordQuery,
): Promise<{ newestId: number; hits: Hit[] }> {
  const lastId = sql`coalesce((select max(id) from property_listings), 0)`;
  const searchedId = newestId === undefined ? lastId : sql`least(${newestId}::bigint, ${lastId})`;
  const bandCondition = sql<SqlBool>`${whereInNewestBands(sql`(select id from newest)`, FIRST_QUERY_BANDS)}
    and id + 0 <= (select id from newest)`;
  const { rows } = await sql<{ newestId: number; matches: MatchRow[] }>`
    with newest as materialized (select ${searchedId} as id)
    select newest.id as "newestId", (${selectMatches({ text, filters, bandCondition, limit: maxMatches })}) as matches
    from newest`.execute(db);
  const { newestId: id, matches } = rows[0] ?? { newestId: 0, matches: [] };
  return { newestId: id, hits: matches.map(toHit) };
}

async function findMatches(
  db: Kysely<Tables>,
  options: WordQuery & {
    newestId: number;
    bandRange: { firstBand: number; endBand: number };
    limit: number;
  },
): Promise<Hit[]> {
  const { text, filters, newestId, bandRange, limit } = options;
  const { firstBand, endBand } = bandRange;
  const shouldNameBands = firstBand > 0 || endBand <= MAX_NAMED_LAST_BANDS;
  const bandCondition = sql<SqlBool>`${shouldNameBands ? whereInBands(firstBand, endBand - 1) : sql`true`}
    and id + 0 >= ${getFirstIdOfBand(firstBand)} and id + 0 < ${getFirstIdOfBand(endBand)} and id + 0 <= ${newestId}`;
  const { rows } = await sql<{ matches: MatchRow[] }>`
    select (${selectMatches({ text, filters, bandCondition, limit })}) as matches`.execute(db);
  return (rows[0]?.matches ?? []).map(toHit);
}

type MatchRow = [id: number, rank: number, group: number | null];

const toHit = ([id, rank, group]: MatchRow): Hit => ({ id, rank, group });

/**
 * Returns the query for the newest matches as one JSON value. `id + 0`, here and above, keeps the planner from
 * scanning the ID index, which would read the words of every listing.
 */
function selectMatches(options: {
  text: string;
  filters: ResolvedFilters;
  bandCondition: Expression<SqlBool>;
  limit: number;
}): RawBuilder<MatchRow[]> {
  const { text, filters, bandCondition, limit } = options;
  const tsQuery = sql`plainto_tsquery('simple', ${text})`;
  const indexQueries = listIndexConditions(filters).map(
    (indexCondition) => sql`(
      select id, ts_rank_cd(search_vector, ${tsQuery}) as rank, duplicate_group
      from property_listings
      where ${indexCondition} and search_vector @@ ${tsQuery} and ${whereFilterTerms(filters)} and ${bandCondition}
      order by id + 0 desc limit ${limit})`,
  );
  return sql`
    select coalesce(json_agg(json_build_array(id, rank, duplicate_group)), '[]')
    from (select * from (${sql.join(indexQueries, sql` union all `)}) as part
      order by id desc limit ${limit}) as match`;
}
