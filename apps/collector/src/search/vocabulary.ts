import { type Kysely, sql } from 'kysely';
import { pause } from '../async/wait.ts';
import { FIELD_NAMES } from '../listing/fields.ts';
import { MAX_ID } from '../schemas.ts';
import type { Tables } from '../tables.ts';
import { stemKey } from './stems.ts';
import { findPlacesByPrefix } from '../places/gazetteer.ts';
import { findConceptOfWords, getConceptOfStem, quote, TYPE_OPERANDS } from './concepts.ts';
import { listStemTerms } from './listing-stems.ts';
import { createPlaceOperands, type TermGroup } from './query-analysis.ts';

/** Alternative terms of a word or phrase of a query, ready for the database. */
export type WeightedGroup = {
  /** Words of the query, normalized. */
  text: string;
  /** `tsquery` that a listing with one of the terms matches. */
  tsquery: string;
  /** Larger for rarer terms (inverse document frequency). */
  weight: number;
  /** The group only ranks the matches of the others. */
  isPreference: boolean;
};

/** Words with at most this number of listings may be the beginning of another word. */
const MAX_RARE_LISTINGS = 2;
const MIN_PREFIX_LENGTH = 2;
/** The last word of a query may be incomplete even if listings have it. */
const MIN_LAST_PREFIX_LENGTH = 4;
/** Shortest beginning of a word with synonyms or of a place name, and number of the places. */
const MIN_COMPLETED_LENGTH = 3;
const MAX_COMPLETED_PLACES = 8;

/** Shortest word with a typo, and shortest word with two. */
const MIN_TYPO_LENGTH = 3;
const MIN_TWO_TYPOS_LENGTH = 8;

/** Number of terms with the most common trigrams whose distance is computed. */
const MAX_CANDIDATES = 100;
/** Spellings of unknown words whose near terms are looked up. */
const MAX_TYPO_KEYS = 12;
/** Words of a query that are looked up. */
const MAX_WORDS = 16;

const WORD_KEY_PATTERN = /^[a-z]{2,40}$/;

/** Weight of a preference, and factors of the weights of types and places, and of words that may mean something else. */
const PREFERENCE_WEIGHT = 1;
const DECISIVE_FACTOR = 2;
const GUESS_FACTOR = 0.5;

type Candidate = { key: string; term: string };

type Expansion = Pick<TermGroup, 'operands' | 'excluded'>;

/**
 * Adds to each word of a query that no listing has the words and places that it begins, or else the nearest words of
 * listings. Weighs the groups by how few listings have their terms.
 */
export async function expandUnknownWords(
  db: Kysely<Tables>,
  groups: readonly TermGroup[],
): Promise<WeightedGroup[]> {
  const counts = await countListings(db, groups.flatMap(listTerms));
  const total = counts.get('') ?? 0;
  const lookedUpGroups = groups
    .filter(({ stems }) => stems.length > 0)
    .slice(0, MAX_WORDS)
    .map((group) => ({ group, count: countGroup(group, counts) }));
  const begunGroups = lookedUpGroups.filter(mayBeBegun);
  const prefixes = await findPrefixes(
    db,
    begunGroups.flatMap(({ group }) => listBeginnings(group)),
  );
  const expansions = new Map<TermGroup, Expansion>(
    begunGroups.map(({ group, count }) => [group, completeWord(group, count, prefixes)]),
  );
  const unknownGroups = lookedUpGroups.filter(
    ({ group, count }) =>
      count === 0 && group.text.length > MIN_TYPO_LENGTH && !expansions.get(group)?.operands.length,
  );
  const nearTerms = await findNearTerms(
    db,
    unknownGroups.flatMap(({ group }) => listKeys(group)),
  );
  const correctedGroups = new Set(unknownGroups.map(({ group }) => group));
  for (const group of correctedGroups) expansions.set(group, correctWord(group, nearTerms));
  const newTerms = [...expansions.values()].flatMap(listTerms);
  const allCounts =
    newTerms.length === 0
      ? counts
      : new Map([...counts, ...prefixes, ...(await countListings(db, newTerms))]);
  return groups.map((group) => {
    const { operands = [], excluded = [] } = expansions.get(group) ?? {};
    const expandedGroup = {
      operands: [...new Set([...group.operands, ...operands])],
      excluded: [...group.excluded, ...excluded],
    };
    const count = Math.min(countGroup(expandedGroup, allCounts), total);
    const { text, isPreference = false } = group;
    const factor =
      group.isDecisive === true ? DECISIVE_FACTOR : correctedGroups.has(group) ? GUESS_FACTOR : 1;
    const weight = factor * Math.log(1 + (total - count + 0.5) / (count + 0.5));
    return {
      text,
      tsquery: createTsquery(expandedGroup),
      weight: isPreference ? PREFERENCE_WEIGHT : weight,
      isPreference,
    };
  });
}

const join = (operands: readonly string[]) => operands.map((operand) => `(${operand})`).join(' | ');
const exclude = (operands: readonly string[]) => `!(${operands.join(' | ')})`;

/** Matches listings of a type, and listings without a type whose text has the word: "house" is in the texts of many flats. */
function createTsquery({ operands, excluded }: Expansion): string {
  const types = TYPE_OPERANDS.filter((operand) => operands.includes(operand));
  const otherTypes = TYPE_OPERANDS.filter((operand) => !operands.includes(operand));
  const words = operands.filter((operand) => !types.includes(operand));
  const parts =
    types.length === 0 || words.length === 0 || otherTypes.length === 0
      ? operands
      : [...types, `(${join(words)}) & ${exclude(otherTypes)}`];
  if (excluded.length === 0) return join(parts);
  return parts.length === 0 ? exclude(excluded) : `(${join(parts)}) & ${exclude(excluded)}`;
}

/** Returns the terms of operands without those that phrases combine; only the types if there are any. */
function listTerms({ operands }: Pick<Expansion, 'operands'>): string[] {
  const types = TYPE_OPERANDS.filter((operand) => operands.includes(operand));
  return (types.length > 0 ? types : operands).flatMap(
    (operand) => /^'([^']+)'(?::\*)?$/.exec(operand)?.[1] ?? [],
  );
}

const countGroup = (group: Pick<Expansion, 'operands'>, counts: ReadonlyMap<string, number>) =>
  Math.max(0, ...listTerms(group).map((term) => counts.get(term) ?? 0));

/** Returns the spellings of a word to look up. */
const listKeys = ({ stems, text }: TermGroup) =>
  [...new Set([...stems, stemKey(text)])].filter((key) => WORD_KEY_PATTERN.test(key));

/** Returns the spelling of a word that may be the beginning of another one. */
const listBeginnings = ({ text }: TermGroup) =>
  [stemKey(text)].filter((key) => WORD_KEY_PATTERN.test(key));

function mayBeBegun({ group, count }: { group: TermGroup; count: number }): boolean {
  const isLong = (group.prefix?.length ?? 0) >= MIN_LAST_PREFIX_LENGTH;
  return isLong || count <= MAX_RARE_LISTINGS;
}

/** Returns the words of listings, the synonyms and the places that a word begins. */
function completeWord(
  group: TermGroup,
  count: number,
  prefixes: ReadonlyMap<string, number>,
): Expansion {
  const keys = listBeginnings(group);
  const operands = keys
    .filter((key) => key.length >= MIN_PREFIX_LENGTH && prefixes.has(key))
    .map((key) => `'${key}':*`);
  if (group.text.length < MIN_COMPLETED_LENGTH || (count > 0 && group.prefix === undefined))
    return { operands, excluded: [] };
  const concepts = keys.map((key) => findConceptOfWords((word) => word.startsWith(key)));
  const places = findPlacesByPrefix(group.text, MAX_COMPLETED_PLACES);
  return {
    operands: [
      ...operands,
      ...concepts.flatMap((concept) => concept.operands),
      ...places.flatMap(createPlaceOperands),
    ],
    excluded: concepts.flatMap((concept) => concept.excluded),
  };
}

/** Returns the nearest words of listings, and the synonyms of the nearest words. */
function correctWord(
  group: TermGroup,
  nearTerms: ReadonlyMap<string, readonly string[]>,
): Expansion {
  const keys = listKeys(group);
  const terms = keys.flatMap((key) => nearTerms.get(key) ?? []);
  const concepts = [
    ...terms.map(getConceptOfStem),
    ...keys.map((key) => findConceptOfWords((word) => isNearWord(key, word))),
  ];
  return {
    operands: [...terms.map(quote), ...concepts.flatMap(({ operands }) => operands)],
    excluded: concepts.flatMap(({ excluded }) => excluded),
  };
}

/** Returns the numbers of listings with the terms, and of all listings under the empty term. */
async function countListings(
  db: Kysely<Tables>,
  terms: readonly string[],
): Promise<Map<string, number>> {
  const rows = await db
    .selectFrom('search_terms')
    .select(['term', 'listings'])
    .where('term', 'in', [...new Set(['', ...terms])])
    .execute();
  return new Map(rows.map(({ term, listings }) => [term, listings]));
}

/** Returns the terms with the fewest typos by key, if any term is near enough. */
async function findNearTerms(
  db: Kysely<Tables>,
  keys: readonly string[],
): Promise<Map<string, string[]>> {
  const lookedUpKeys = keys.filter((key) => key.length >= MIN_TYPO_LENGTH).slice(0, MAX_TYPO_KEYS);
  if (lookedUpKeys.length === 0) return new Map();
  const { rows } = await sql<Candidate>`
    with looked_up as materialized (
      select key, term_trigrams(key) as key_trigrams from unnest(${lookedUpKeys}::text[]) as key)
    select key, candidate.term
    from looked_up
    cross join lateral (
      select term from search_terms
      where trigrams && key_trigrams
      order by (
        select count(*) from unnest(trigrams) as trigram where trigram = any(key_trigrams)
      ) desc, abs(length(term) - length(key)), listings desc
      limit ${MAX_CANDIDATES}) as candidate`.execute(db);
  const candidates = Map.groupBy(rows, ({ key }) => key);
  return new Map(
    [...candidates].map(([key, terms]) => [
      key,
      selectNearest(
        key,
        terms.map(({ term }) => term),
      ),
    ]),
  );
}

const getMaxDistance = (key: string) => (key.length >= MIN_TWO_TYPOS_LENGTH ? 2 : 1);

/** Returns whether a word has few typos. The first letter is seldom wrong, and comparing it is cheap. */
const isNearWord = (key: string, word: string) =>
  key[0] === word[0] &&
  Math.min(key.length, word.length) > MIN_TYPO_LENGTH &&
  Math.abs(key.length - word.length) <= getMaxDistance(key) &&
  computeDistance(key, word) <= getMaxDistance(key);

function selectNearest(key: string, terms: readonly string[]): string[] {
  const maxDistance = getMaxDistance(key);
  const near = terms
    .map((term) => ({ term, distance: computeDistance(key, term) }))
    .filter(({ distance }) => distance <= maxDistance);
  const minDistance = Math.min(...near.map(({ distance }) => distance));
  return near.filter(({ distance }) => distance === minDistance).map(({ term }) => term);
}

/** Returns the number of inserted, deleted, replaced and exchanged adjacent letters between two words. */
export function computeDistance(a: string, b: string): number {
  let beforeLast: number[] = [];
  let last = Array.from({ length: b.length + 1 }, (_, index) => index);
  for (let i = 1; i <= a.length; i += 1) {
    const row = [i];
    for (let j = 1; j <= b.length; j += 1) {
      const isReplaced = a[i - 1] !== b[j - 1];
      const isExchanged = i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1];
      row.push(
        Math.min(
          (last[j] ?? 0) + 1,
          (row[j - 1] ?? 0) + 1,
          (last[j - 1] ?? 0) + (isReplaced ? 1 : 0),
          isExchanged ? (beforeLast[j - 2] ?? 0) + 1 : Infinity,
        ),
      );
    }
    [beforeLast, last] = [last, row];
  }
  return last[b.length] ?? 0;
}

/** Returns the keys that begin a term, with the number of listings of the most frequent one. */
async function findPrefixes(
  db: Kysely<Tables>,
  keys: readonly string[],
): Promise<Map<string, number>> {
  if (keys.length === 0) return new Map();
  const { rows } = await sql<{ key: string; listings: number }>`
    select key, most.listings
    from unnest(${[...new Set(keys)]}::text[]) as key
    cross join lateral (
      select max(listings) as listings from search_terms
      where term >= key collate "C" and term < (key || '{') collate "C") as most
    where most.listings is not null`.execute(db);
  return new Map(rows.map(({ key, listings }) => [key, listings]));
}

/** Listings whose terms are counted, newest first, and the number that is read at once. */
const MAX_COUNTED_LISTINGS = 50_000;
const BATCH_SIZE = 500;
/** Most common terms that are kept, and the number that one statement stores. */
const MAX_STORED_TERMS = 50_000;
const TERMS_PER_STATEMENT = 5000;
/** The terms are counted again when there are more listings by this factor. */
const MIN_GROWTH_FACTOR = 1.1;

/** Terms to keep: words, and facts except phones. */
const isStored = (term: string) => /^(?:@(?!phone)|[a-z]{2})/.test(term);

/**
 * Counts the terms of the newest listings, unless there are few listings that the vocabulary does not know yet.
 * @param options.isForced Counts them in any case.
 * @returns The number of stored terms. Undefined if they were not counted, or the signal aborted.
 */
export async function refreshVocabulary(
  db: Kysely<Tables>,
  signal: AbortSignal,
  { isForced = false }: { isForced?: boolean } = {},
): Promise<number | undefined> {
  if (!isForced && !(await hasGrown(db))) return undefined;
  const counts = new Map<string, number>();
  let total = 0;
  let lastId: number | undefined;
  while (total < MAX_COUNTED_LISTINGS) {
    const startedAt = performance.now();
    const listings = await readListings(db, lastId);
    if (listings.length === 0) break;
    for (const listing of listings) {
      for (const term of listStemTerms(listing).filter(isStored))
        counts.set(term, (counts.get(term) ?? 0) + 1);
    }
    total += listings.length;
    lastId = listings.at(-1)?.id;
    // Leave half of the time to searches and workers.
    await pause(performance.now() - startedAt, signal);
    if (signal.aborted) return undefined;
  }
  const commonTerms = [...counts].toSorted(([, a], [, b]) => b - a).slice(0, MAX_STORED_TERMS);
  await storeTerms(db, [['', total], ...commonTerms]);
  return commonTerms.length;
}

async function hasGrown(db: Kysely<Tables>): Promise<boolean> {
  const { rows } = await sql<{ known: number; listings: number }>`
    select coalesce((select listings from search_terms where term = ''), 0) as known,
      (select count(*)::integer from (
        select from property_listings limit ${MAX_COUNTED_LISTINGS}) as counted) as listings`.execute(
    db,
  );
  const { known = 0, listings = 0 } = rows[0] ?? {};
  return listings > known * MIN_GROWTH_FACTOR;
}

const readListings = (db: Kysely<Tables>, lastId: number | undefined) =>
  db
    .selectFrom('property_listings')
    .select(['id', 'place_path', 'place_text', ...FIELD_NAMES])
    .where('id', '<', lastId ?? MAX_ID)
    .orderBy('id', 'desc')
    .limit(BATCH_SIZE)
    .execute();

async function storeTerms(
  db: Kysely<Tables>,
  entries: readonly (readonly [term: string, listings: number])[],
): Promise<void> {
  await db.transaction().execute(async (trx) => {
    await trx.deleteFrom('search_terms').execute();
    for (let start = 0; start < entries.length; start += TERMS_PER_STATEMENT) {
      const chunk = entries.slice(start, start + TERMS_PER_STATEMENT);
      await sql`
        insert into search_terms (term, listings)
        select * from unnest(${chunk.map(([term]) => term)}::text[],
          ${chunk.map(([, listings]) => listings)}::integer[])`.execute(trx);
    }
  });
}
