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

/** A listing, its rank, and its group of likely duplicates. */
export type Hit = { id: number; rank: number; group: number | null };

/** Hits, and the newest listing that was considered. */
export type RankedHits = { ranked: Hit[]; newestId: number };

/** Orders hits: best first, newest first where ranks are equal. */
export function compareByRank(a: Omit<Hit, 'group'>, b: Omit<Hit, 'group'>): number {
  return b.rank - a.rank || b.id - a.id;
}

type Query = {
  /** A normalised query that has a word. */
  text: string;
  filters: SearchFilters;
  /** The most listings to rank. */
  bound: number;
  /** Later listings are left out. It may be any number, as a client may send any cursor. */
  newestId?: number | undefined;
};

/** The bands of ids in which the newest matches are looked for first. */
const FIRST_BANDS = 2;
/** How many times as many bands as before the next look covers, at least and at most. */
const GROWTH = { min: 0.5, max: 256 };
/** Up to this band, bands are not named in a look that reaches back to the first listing. */
const MAX_NAMED_TO_FIRST = 2048;
/**
 * The most bands that a look names, with some 300 terms. The index compares each term with all others and with each match:
 * 65,000 terms take 6 s for ten matches. Past so many bands there are few matches, and the rest is read at once.
 */
const MAX_NAMED = 2 ** 13;
/** Bands differ, so a look covers somewhat more of them than were enough on average. */
const RESERVE = 1.25;

/**
 * Finds the newest listings that have all words, at most `bound`, and ranks them by cover density. It looks in the newest
 * bands of ids, then in as many more as the matches so far suggest. A broad word costs what its newest matches cost, and a
 * rare one costs one look more; there are at most some 25 looks.
 */
export async function rankMatches(db: Kysely<Tables>, query: Query): Promise<RankedHits> {
  const { newestId, found } = await findFirst(db, query);
  const last = getBand(newestId);
  let from = Math.max(0, last + 1 - FIRST_BANDS);
  while (from > 0 && found.length < query.bound) {
    const bands = nextBands({ seen: last + 1 - from, found: found.length, bound: query.bound });
    const window = { from: Math.max(0, from - bands), before: from };
    const limit = query.bound - found.length;
    found.push(...(await findMatches(db, { ...query, newestId, window, limit })));
    from = window.from;
  }
  return { ranked: found.toSorted(compareByRank), newestId };
}

/** Never fewer than a share of those seen: the matches may all be new and one too few. */
function nextBands({ seen, found, bound }: { seen: number; found: number; bound: number }): number {
  const wanted = found === 0 ? Infinity : (seen * (bound - found) * RESERVE) / found;
  const bands = Math.ceil(Math.min(Math.max(wanted, seen * GROWTH.min), seen * GROWTH.max));
  return seen < MAX_NAMED ? Math.min(bands, MAX_NAMED) : Infinity;
}

/** Finds the matches in the newest bands, and the newest id, in one query. The id is never beyond the last listing's. */
async function findFirst(
  db: Kysely<Tables>,
  { text, filters, bound, newestId }: Query,
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
  options: Query & { newestId: number; window: { from: number; before: number }; limit: number },
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
 * The newest matches as one JSON value. `id + 0`, here and above: the planner could otherwise walk along the ids, and read
 * the words of every listing.
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
