import { type Kysely, sql } from 'kysely';
import type { Reach } from '../access/reach.ts';
import type { Tables } from '../tables.ts';
import { newestFirst, type Position } from '../newest-first.ts';

/** A memory fact as it is stored. Rows of an older system may lack their times, and texts read as ''. */
export type Fact = {
  id: string;
  /** Null marks a legacy fact, visible only to admins. */
  user_id: string | null;
  category: string;
  key: string;
  value: string;
  /** The conversation that it was learnt in, where it was. */
  source_session_id: string | null;
  created_at: Date | null;
  updated_at: Date | null;
};

/** Which facts are meant: those of a category, and those with all these words somewhere in them. */
export type FactFilter = { category?: string | undefined; words?: readonly string[] | undefined };

/** How many facts a user may have. Adoption of legacy facts may pass it. */
export const MAX_FACTS = 2000;

const categoryColumn = sql<string>`coalesce(memory_facts.category, '')`;

const factColumns = [
  'id',
  'user_id',
  categoryColumn.as('category'),
  'key',
  sql<string>`coalesce(memory_facts.value, '')`.as('value'),
  'source_session_id',
  'created_at',
  'updated_at',
] as const;

/** How new a value is: when it was written, as far as that is known. */
export const written = newestFirst('updated_at', 'created_at');

/**
 * Facts, the most recently written first. The owner stands in the statement: nobody else's fact can
 * slip through. Specification 000, Ownership columns.
 * @param after Where the page before ended.
 * @returns At most `limit` facts, each with its position.
 */
export async function listFacts(
  db: Kysely<Tables>,
  reach: Reach,
  { limit, after, ...filter }: FactFilter & { limit: number; after?: Position | undefined },
): Promise<(Fact & { position: Position })[]> {
  let query = matching(db, reach, filter)
    .select([...factColumns, written.microseconds.as('written_us')])
    .orderBy(written.time, 'desc')
    .orderBy('id', 'desc')
    .limit(limit);
  if (after !== undefined) query = query.where(written.isAfter(after));
  const rows = await query.execute();
  return rows.map(({ written_us, ...fact }) => ({ ...fact, position: [written_us, fact.id] }));
}

/** How many facts `listFacts` would give in all its pages, and how many of them are not `readerId`'s. */
export function countFacts(
  db: Kysely<Tables>,
  reach: Reach,
  { readerId, ...filter }: FactFilter & { readerId: string },
): Promise<{ count: number; others: number }> {
  return matching(db, reach, filter)
    .select(({ fn }) => [
      fn.countAll<number>().as('count'),
      fn.countAll<number>().filterWhere('user_id', 'is distinct from', readerId).as('others'),
    ])
    .executeTakeFirstOrThrow();
}

function matching(db: Kysely<Tables>, reach: Reach, { category, words = [] }: FactFilter) {
  let query = db.selectFrom('memory_facts');
  if (reach === 'every-user') query = query.where('user_id', 'is not', null);
  else if (reach !== 'everything') query = query.where('user_id', '=', reach.userId);
  if (category !== undefined) query = query.where(categoryColumn, '=', category);
  for (const word of words) {
    // A word has no white space, so that none is found across two of them.
    query = query.where(
      sql<boolean>`concat_ws(' ', category, key, value) ilike ${`%${escapeLike(word)}%`}`,
    );
  }
  return query;
}

/** A text as itself within a pattern of LIKE. */
function escapeLike(text: string): string {
  return text.replace(/[\\%_]/g, '\\$&');
}

/** In an upsert: only a row that was there before names the transaction that locked it, this one. */
const IS_INSERTED = sql`xmax = 0`;

/**
 * Writes a fact of a user: a new one, or over the value of the one that has its category and key. It is
 * one statement, so that writers of the same fact at the same moment leave one row.
 * @returns The fact and whether it is new; nothing where it would be new and the user has
 * `MAX_FACTS`. That bound protects the store: writers of the same moment may pass it together.
 */
export async function putFact(
  db: Kysely<Tables>,
  fact: {
    userId: string;
    category: string;
    key: string;
    value: string;
    sourceSessionId: string | null;
  },
): Promise<{ fact: Fact; isNew: boolean } | undefined> {
  const { userId, category, key, value, sourceSessionId } = fact;
  const { rows } = await sql<Fact & { is_new: boolean }>`
    insert into memory_facts (user_id, category, key, value, source_session_id)
    select ${userId}, ${category}, ${key}, ${value}, ${sourceSessionId}
    where (select count(*) from memory_facts where user_id = ${userId}) < ${MAX_FACTS}
      or exists (
        select from memory_facts
        where user_id = ${userId} and category = ${category} and key = ${key}
      )
    on conflict (user_id, category, key) do update
    set value = excluded.value, source_session_id = excluded.source_session_id, updated_at = now()
    returning id, user_id, category, key, value, source_session_id, created_at, updated_at,
      ${IS_INSERTED} as is_new
  `.execute(db);
  const [row] = rows;
  if (row === undefined) return undefined;
  const { is_new: isNew, ...stored } = row;
  return { fact: stored, isNew };
}

/** Deletes a fact of a user and tells whether there was one. */
export async function deleteFact(
  db: Kysely<Tables>,
  { userId, category, key }: { userId: string; category: string; key: string },
): Promise<boolean> {
  const result = await db
    .deleteFrom('memory_facts')
    .where('user_id', '=', userId)
    .where('category', '=', category)
    .where('key', '=', key)
    .executeTakeFirst();
  return result.numDeletedRows > 0n;
}
