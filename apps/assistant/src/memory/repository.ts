import { randomUUID } from 'node:crypto';
import { type Kysely, sql, type Transaction } from 'kysely';
import { whereInScope, type AccessScope } from '../access/permissions.ts';
import type { Tables } from '../tables.ts';
import type { Position } from '../pages.ts';
import { written } from './written.ts';

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

const categoryColumn = sql<string>`coalesce(memory_facts.category, '')`;

const factColumns = [
  'id',
  'user_id',
  categoryColumn.as('category'),
  sql<string>`coalesce(memory_facts.key, '')`.as('key'),
  sql<string>`coalesce(memory_facts.value, '')`.as('value'),
  'source_session_id',
  'created_at',
  'updated_at',
] as const;

/**
 * Facts, the most recently written first. The owner stands in the statement: nobody else's fact can
 * slip through. Specification 000, Ownership columns.
 * @param after Where the page before ended.
 * @returns At most `limit` facts, each with its position.
 */
export async function listFacts(
  db: Kysely<Tables>,
  reach: AccessScope,
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

/**
 * All facts of a user, by their ids: unlike by their times none is passed over that is written again between two pages.
 * @param after The id that the page before ended with.
 * @returns At most `limit`.
 */
export function listFactsOf(
  db: Kysely<Tables>,
  { userId, after, limit }: { userId: string; after?: string | undefined; limit: number },
): Promise<Fact[]> {
  let query = db
    .selectFrom('memory_facts')
    .select(factColumns)
    .where('user_id', '=', userId)
    .orderBy('id')
    .limit(limit);
  if (after !== undefined) query = query.where('id', '>', after);
  return query.execute();
}

/** How many facts `listFacts` would give in all its pages, and how many of them are not `readerId`'s. */
export function countFacts(
  db: Kysely<Tables>,
  reach: AccessScope,
  { readerId, ...filter }: FactFilter & { readerId: string },
): Promise<{ count: number; others: number }> {
  return matching(db, reach, filter)
    .select(({ fn }) => [
      fn.countAll<number>().as('count'),
      fn.countAll<number>().filterWhere('user_id', 'is distinct from', readerId).as('others'),
    ])
    .executeTakeFirstOrThrow();
}

function matching(db: Kysely<Tables>, reach: AccessScope, { category, words = [] }: FactFilter) {
  let query = db.selectFrom('memory_facts').where(whereInScope(reach, 'user_id'));
  if (category !== undefined) query = query.where(categoryColumn, '=', category);
  if (words.length === 0) return query;
  // A word has no white space, so that none is found across two of them. Expressions that are letters alone, which
  // `***=` says, take time by the length of the text, whatever letters it has; ILIKE takes that times the word's.
  const patterns = words.map((word) => `***=${word}`);
  return query.where(
    sql<boolean>`concat_ws(' ', category, key, value) ~* all(${patterns}::text[])`,
  );
}

/** What one fact of a user is called. */
export type FactKey = { userId: string; category: string; key: string };

/** How many facts a user has. */
export async function countOwnFacts(trx: Transaction<Tables>, userId: string): Promise<number> {
  const { count } = await trx
    .selectFrom('memory_facts')
    .select(({ fn }) => fn.countAll<number>().as('count'))
    .where('user_id', '=', userId)
    .executeTakeFirstOrThrow();
  return count;
}

/** Where and when a fact came about: ISO 8601 times, with the microseconds that a `Date` has no room for. */
export type FactOrigin = {
  source_session_id: string | null;
  created_at: string | null;
  updated_at: string | null;
};

/** What a fact of a user says, and its origin; nothing where there is none of that name. */
export async function findFact(
  db: Kysely<Tables>,
  { userId, category, key }: FactKey,
): Promise<{ value: string; origin: FactOrigin } | undefined> {
  const fact = await db
    .selectFrom('memory_facts')
    .select([
      sql<string>`coalesce(value, '')`.as('value'),
      'source_session_id',
      sql<string | null>`to_json(created_at) #>> '{}'`.as('created_at'),
      sql<string | null>`to_json(updated_at) #>> '{}'`.as('updated_at'),
    ])
    .where('user_id', '=', userId)
    .where('category', '=', category)
    .where('key', '=', key)
    .executeTakeFirst();
  if (fact === undefined) return undefined;
  const { value, ...origin } = fact;
  return { value, origin };
}

/** Writes a fact of a user: a new one, or over the value of the one that has its category and key. */
export async function writeFact(
  trx: Transaction<Tables>,
  fact: FactKey & { value: string; sourceSessionId: string | null },
): Promise<Fact> {
  const { userId, sourceSessionId, ...rest } = fact;
  return trx
    .insertInto('memory_facts')
    .values({
      ...rest,
      id: randomUUID(),
      user_id: userId,
      source_session_id: sourceSessionId,
      created_at: sql<Date>`now()`,
      updated_at: sql<Date>`now()`,
    })
    .onConflict((conflict) =>
      conflict.columns(['user_id', 'category', 'key']).doUpdateSet((eb) => ({
        value: eb.ref('excluded.value'),
        source_session_id: eb.ref('excluded.source_session_id'),
        updated_at: sql<Date>`now()`,
      })),
    )
    .returning(factColumns)
    .executeTakeFirstOrThrow();
}

/** Writes a fact of a user as `findFact` gave it, whether there is one of that name by now or not. */
export async function restoreFact(
  trx: Transaction<Tables>,
  { userId, origin, ...rest }: FactKey & { value: string; origin: FactOrigin },
): Promise<void> {
  await trx
    .insertInto('memory_facts')
    .values({
      ...rest,
      id: randomUUID(),
      user_id: userId,
      source_session_id: origin.source_session_id,
      created_at: sql<Date>`${origin.created_at}::timestamptz`,
      updated_at: sql<Date>`${origin.updated_at}::timestamptz`,
    })
    .onConflict((conflict) =>
      conflict.columns(['user_id', 'category', 'key']).doUpdateSet((eb) => ({
        value: eb.ref('excluded.value'),
        source_session_id: eb.ref('excluded.source_session_id'),
        created_at: eb.ref('excluded.created_at'),
        updated_at: eb.ref('excluded.updated_at'),
      })),
    )
    .execute();
}

/** Deletes a fact of a user, and gives what it said; nothing where there was none of that name. */
export async function deleteFact(
  db: Kysely<Tables>,
  { userId, category, key }: FactKey,
): Promise<string | undefined> {
  const deleted = await db
    .deleteFrom('memory_facts')
    .where('user_id', '=', userId)
    .where('category', '=', category)
    .where('key', '=', key)
    .returning(sql<string>`coalesce(value, '')`.as('value'))
    .executeTakeFirst();
  return deleted?.value;
}

/** Deletes all that is remembered of a user; how many facts and summaries there were. */
export async function deleteMemoryOf(
  trx: Transaction<Tables>,
  userId: string,
): Promise<{ facts: number; summaries: number }> {
  const deleteFrom = async (table: 'memory_facts' | 'memory_summaries') => {
    const { numDeletedRows } = await trx
      .deleteFrom(table)
      .where('user_id', '=', userId)
      .executeTakeFirstOrThrow();
    return Number(numDeletedRows);
  };
  return {
    facts: await deleteFrom('memory_facts'),
    summaries: await deleteFrom('memory_summaries'),
  };
}
