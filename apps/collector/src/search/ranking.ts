import { type Expression, type Kysely, type RawBuilder, sql, type SqlBool } from 'kysely';
import type { Tables } from '../tables.ts';
import {
  getBand,
  getFirstIdOfBand,
  whereInBands,
  whereFilterTerms,
  whereInNewestBands,
  listPartitions,
} from './filters.ts';
import type { SearchFilters } from './schemas.ts';

/** Listing with its rank and its group of likely duplicates. */
export type Hit = { id: number; rank: number; group: number | null };

/** Hits, and the ID of the newest listing that was considered. */
export type RankedHits = { ranked: Hit[]; newestId: number };

/** Compares hits: higher ranks first, then newer listings. */
export function compareByRank(a: Omit<Hit, 'group'>, b: Omit<Hit, 'group'>): number {
  return b.rank - a.rank || b.id - a.id;
}

export type WordQuery = {
  /** Normalised query with at least one word. */
  text: string;
  filters: SearchFilters;
  bound: number;
  /** Excludes listings with a larger ID. Any number is allowed, because it comes from a client's cursor. */
  newestId?: number | undefined;
};

/** Number of ID bands that the first query reads. */
const FIRST_BANDS = 2;
/** Bounds of the number of bands that a query adds, relative to the bands read so far. */
const BAND_GROWTH = { min: 0.5, max: 256 };
/** A query that reaches back to the first listing names its bands only if there are at most this many. */
const MAX_NAMED_TO_FIRST = 2048;
/**
 * Maximum number of bands that a query names, which are about 300 terms. The index compares each term with all others,
 * so 65,000 terms take 6 s for ten matches. Beyond this, matches are rare and one query reads the remaining bands.
 */
const MAX_NAMED_BANDS = 2 ** 13;
/** Safety factor for the estimated number of bands, because matches are spread unevenly. */
const SAFETY_FACTOR = 1.25;

/**
 * Finds the newest listings that contain all words, at most `bound`, and ranks them by cover density. It reads the
 * newest ID bands first, then more bands as the number of matches suggests. A frequent word costs little, and a
 * rare word costs one more query. There are at most about 25 queries.
 */
export async function rankMatches(db: Kysely<Tables>, query: WordQuery): Promise<RankedHits> {
  const { newestId, found } = await findFirst(db, query);
  const last = getBand(newestId);
  let from = Math.max(0, last + 1 - FIRST_BANDS);
  while (from > 0 && found.length < query.bound) {
    const bands = countNextBands({
      seen: last + 1 - from,
      found: found.length,
      bound: query.bound,
    });
    const window = { from: Math.max(0, from - bands), before: from };
    const limit = query.bound - found.length;
    found.push(...(await findMatches(db, { ...query, newestId, window, limit })));
    from = window.from;
  }
  return { ranked: found.toSorted(compareByRank), newestId };
}

/** Returns the number of bands to read next. The lower bound matters if all matches so far are recent. */
function countNextBands({
  seen,
  found,
  bound,
}: {
  seen: number;
  found: number;
  bound: number;
}): number {
  const wanted = found === 0 ? Infinity : (seen * (bound - found) * SAFETY_FACTOR) / found;
  const bands = Math.ceil(
    Math.min(Math.max(wanted, seen * BAND_GROWTH.min), seen * BAND_GROWTH.max),
  );
  return seen < MAX_NAMED_BANDS ? Math.min(bands, MAX_NAMED_BANDS) : Infinity;
}

/**
 * Finds the matches in the newest bands and the newest ID in one query. The ID never exceeds that of the last listing.
 */
async function findFirst(
  db: Kysely<Tables>,
  { text, filters, bound, newestId }: WordQuery,
): Promise<{ newestId: number; found: Hit[] }> {
  const last = sql`coalesce((select max(id) from property_listings), 0)`;
  const newest = newestId === undefined ? last : sql`least(${newestId}::bigint, ${last})`;
  const isInBands = sql<SqlBool>`${whereInNewestBands(sql`(select id from newest)`, FIRST_BANDS)}
    and id + 0 <= (select id from newest)`;
  const { rows } = await sql<{ newestId: number; matches: MatchRow[] }>`
    with newest as materialized (select ${newest} as id)
    select newest.id as "newestId", (${selectMatches({ text, filters, isInBands, limit: bound })}) as matches
    from newest`.execute(db);
  const { newestId: id, matches } = rows[0] ?? { newestId: 0, matches: [] };
  return { newestId: id, found: matches.map(toHit) };
}

async function findMatches(
  db: Kysely<Tables>,
  options: WordQuery & {
    newestId: number;
    window: { from: number; before: number };
    limit: number;
  },
): Promise<Hit[]> {
  const { text, filters, newestId, window, limit } = options;
  const { from, before } = window;
  const isNamed = from > 0 || before <= MAX_NAMED_TO_FIRST;
  const isInBands = sql<SqlBool>`${isNamed ? whereInBands({ from, to: before - 1 }) : sql`true`}
    and id + 0 >= ${getFirstIdOfBand(from)} and id + 0 < ${getFirstIdOfBand(before)} and id + 0 <= ${newestId}`;
  const { rows } = await sql<{ matches: MatchRow[] }>`
    select (${selectMatches({ text, filters, isInBands, limit })}) as matches`.execute(db);
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
  filters: SearchFilters;
  isInBands: Expression<SqlBool>;
  limit: number;
}): RawBuilder<MatchRow[]> {
  const { text, filters, isInBands, limit } = options;
  const query = sql`plainto_tsquery('simple', ${text})`;
  const parts = listPartitions(filters).map(
    (part) => sql`(
      select id, ts_rank_cd(search_vector, ${query}) as rank, duplicate_group
      from property_listings
      where ${part} and search_vector @@ ${query} and ${whereFilterTerms(filters)} and ${isInBands}
      order by id + 0 desc limit ${limit})`,
  );
  return sql`
    select coalesce(json_agg(json_build_array(id, rank, duplicate_group)), '[]')
    from (select * from (${sql.join(parts, sql` union all `)}) as part
      order by id desc limit ${limit}) as match`;
}
