import { type Expression, type Kysely, type RawBuilder, sql, type SqlBool } from 'kysely';
import type { Tables } from '../tables.ts';
import {
  bandOf,
  firstIdOf,
  hasBands,
  hasFilterTerms,
  hasNewestBands,
  partsOf,
} from './filter-terms.sql.ts';
import { byRank } from './pages.ts';
import type { SearchFilters } from './schemas.ts';

/** A listing that has all words, how well, and its group of likely duplicates where it is in one. */
export type Match = { id: number; rank: number; group: number | null };

/** What was ranked, and up to where. */
export type Matches = {
  /** Best first, newest first where ranks are equal; `bound` of them at most. */
  ranked: Match[];
  /** Listings that came after this one were left out: the newest there is, or an older one where that was told. */
  newestId: number;
};

type Query = {
  text: string;
  filters: SearchFilters;
  bound: number;
  newestId?: number | undefined;
};

/** In how many bands of ids the newest matches are looked for first. */
const FIRST_BANDS = 2;
/** How many times as many bands as in all before are looked through at a time, at the least and at the most. */
const GROWTH = { least: 0.5, most: 256 };
/** Of how many bands the names are not worth it any more where they reach back to the first listing. */
const MOST_TO_FIRST = 2048;
/**
 * Of how many bands they are worth it at all: they are some 300 names. The index compares each of them with all the
 * others and each match with all of them: 65,000 names take it 6 s for ten matches, and 40 s for ten thousand. Past so
 * many bands everything is looked through that is left: there were too few matches in these, so there are few in the
 * others as well.
 */
const MOST_NAMED = 2 ** 13;
/** Bands are not all alike, so somewhat more are looked through than were enough if they were. */
const RESERVE = 1.25;

/**
 * Finds the newest listings that have all words, `bound` of them at most, and ranks them by cover density.
 *
 * They are looked for in the newest bands of ids, then in as many more as it takes by what was found so far.
 * So a broad word costs what its newest matches cost, not what it costs to read a list of all of them; and
 * a rare one costs one look more. However large ids have become, there are some 25 looks at most.
 * @param text A normalised query that has a word.
 * @param newestId Listings that came after this one are left out; the newest of all unless told. It may be any
 *   number, as whoever sends a cursor may send any.
 */
export async function rankMatches(db: Kysely<Tables>, query: Query): Promise<Matches> {
  const { newestId, found } = await findFirst(db, query);
  const last = bandOf(newestId);
  let from = Math.max(0, last + 1 - FIRST_BANDS);
  while (from > 0 && found.length < query.bound) {
    const bands = nextBands({ seen: last + 1 - from, found: found.length, bound: query.bound });
    const window = { from: Math.max(0, from - bands), before: from };
    const limit = query.bound - found.length;
    found.push(...(await findMatches(db, { ...query, newestId, window, limit })));
    from = window.from;
  }
  return { ranked: found.toSorted(byRank), newestId };
}

/**
 * How many bands more it takes, were the matches spread evenly: they may all be new and one too few, and the look
 * for that one must come to its end all the same.
 */
function nextBands({ seen, found, bound }: { seen: number; found: number; bound: number }): number {
  const wanted = found === 0 ? Infinity : (seen * (bound - found) * RESERVE) / found;
  const { least, most } = GROWTH;
  const bands = Math.ceil(Math.min(Math.max(wanted, seen * least), seen * most));
  return seen < MOST_NAMED ? Math.min(bands, MOST_NAMED) : Infinity;
}

/**
 * The newest matches in the newest bands, and the newest id: the bands follow from it, so it is one query. It is never
 * one beyond the last listing's, since the bands of ids that nobody has are without end.
 */
async function findFirst(
  db: Kysely<Tables>,
  { text, filters, bound, newestId }: Query,
): Promise<{ newestId: number; found: Match[] }> {
  const last = sql`coalesce((select max(id) from property_listings), 0)`;
  const newest = newestId === undefined ? last : sql`least(${newestId}::bigint, ${last})`;
  const isInBands = sql<SqlBool>`${hasNewestBands(sql`(select id from newest)`, FIRST_BANDS)}
    and id + 0 <= (select id from newest)`;
  const { rows } = await sql<{ newestId: number; matches: MatchRow[] }>`
    with newest as materialized (select ${newest} as id)
    select newest.id as "newestId", (${selectMatches({ text, filters, isInBands, limit: bound })}) as matches
    from newest`.execute(db);
  const { newestId: id, matches } = rows[0] ?? { newestId: 0, matches: [] };
  return { newestId: id, found: matches.map(toMatch) };
}

/** The newest matches in a window of bands. */
async function findMatches(
  db: Kysely<Tables>,
  options: Query & { newestId: number; window: { from: number; before: number }; limit: number },
): Promise<Match[]> {
  const { text, filters, newestId, window, limit } = options;
  const { from, before } = window;
  const isNamed = from > 0 || before <= MOST_TO_FIRST;
  const isInBands = sql<SqlBool>`${isNamed ? hasBands({ from, to: before - 1 }) : sql`true`}
    and id + 0 >= ${firstIdOf(from)} and id + 0 < ${firstIdOf(before)} and id + 0 <= ${newestId}`;
  const { rows } = await sql<{ matches: MatchRow[] }>`
    select (${selectMatches({ text, filters, isInBands, limit })}) as matches`.execute(db);
  return (rows[0]?.matches ?? []).map(toMatch);
}

type MatchRow = [id: number, rank: number, group: number | null];

const toMatch = ([id, rank, group]: MatchRow): Match => ({ id, rank, group });

/**
 * The newest matches as one JSON value. `id + 0`, here and above: else the planner may walk along the ids
 * instead, and look at the words of every listing.
 */
function selectMatches(options: {
  text: string;
  filters: SearchFilters;
  isInBands: Expression<SqlBool>;
  limit: number;
}): RawBuilder<MatchRow[]> {
  const { text, filters, isInBands, limit } = options;
  const query = sql`plainto_tsquery('simple', ${text})`;
  const parts = partsOf(filters).map(
    (part) => sql`(
      select id, ts_rank_cd(search_vector, ${query}) as rank, duplicate_group
      from property_listings
      where ${part} and search_vector @@ ${query} and ${hasFilterTerms(filters)} and ${isInBands}
      order by id + 0 desc limit ${limit})`,
  );
  return sql`
    select coalesce(json_agg(json_build_array(id, rank, duplicate_group)), '[]')
    from (select * from (${sql.join(parts, sql` union all `)}) as part
      order by id desc limit ${limit}) as match`;
}
