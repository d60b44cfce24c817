import { randomUUID } from 'node:crypto';
import type { MemoryChange } from '@oselya/protocol';
import { type Kysely, sql, type Transaction } from 'kysely';
import { type AccessScope, lockOwner, whereInScope } from '../access/permissions.ts';
import { problem } from '../errors.ts';
import { buildTimeOrder, type Position } from '../pages.ts';
import type { Tables } from '../tables.ts';

/** Maximum number of facts per user. Assigned legacy facts may exceed it. */
const MAX_FACTS = 2000;

/** Stored fact. A row of an older system may lack times and an owner. Only admins see a fact without an owner. */
export type Fact = {
  id: string;
  user_id: string | null;
  category: string;
  key: string;
  value: string;
  source_session_id: string | null;
  created_at: Date | null;
  updated_at: Date | null;
};

/** Name of a fact, unique among the facts of a user. Specification 000, Ownership columns. */
export type FactName = { category: string; key: string };

type FactKey = FactName & { userId: string };

type FactFilter = { category?: string | undefined; words?: readonly string[] | undefined };

/** Source and times of a fact. Times are ISO 8601 with microseconds, which a `Date` truncates. */
type FactOrigin = {
  source_session_id: string | null;
  created_at: string | null;
  updated_at: string | null;
};

/** Change as stored for undo, with the origin of the overwritten or removed fact. */
export type RecordedChange = MemoryChange & { origin?: FactOrigin };

/** Function that stores a change in the transaction that makes it. */
export type RecordChange = (trx: Transaction<Tables>, change: RecordedChange) => Promise<void>;

/** Returns a summary of a change: the new value with the previous one, or the removed value. */
export function describeChange({ value, previous }: MemoryChange): string {
  if (value === null) return previous ?? '';
  return previous === null ? value : `${value} (before: ${previous})`;
}

/** Fact order: most recently written first. */
export const factOrder = buildTimeOrder('updated_at', 'created_at');

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
 * Serializes changes to a user's memory, including the assignment of legacy data. Callers lock memory before a turn:
 * waiting while a turn is locked would stop the lease renewal of all turns in the process.
 */
export async function lockMemory(trx: Transaction<Tables>, userId: string): Promise<void> {
  await lockOwner(trx, userId);
  await sql`lock table memory_facts in row exclusive mode`.execute(trx);
}

/** Lists at most `limit` facts in an access scope with their positions, the most recently written first. */
export async function listFacts(
  db: Kysely<Tables>,
  scope: AccessScope,
  { limit, after, ...filter }: FactFilter & { limit: number; after?: Position | undefined },
): Promise<(Fact & { position: Position })[]> {
  let query = selectFacts(db, scope, filter)
    .select([...factColumns, factOrder.microseconds.as('written_us')])
    .orderBy(factOrder.time, 'desc')
    .orderBy('id', 'desc')
    .limit(limit);
  if (after !== undefined) query = query.where(factOrder.isAfter(after));
  const rows = await query.execute();
  return rows.map(({ written_us, ...fact }) => ({ ...fact, position: [written_us, fact.id] }));
}

/** Counts the facts in an access scope, and those among them that do not belong to `readerId`. */
export function countFacts(
  db: Kysely<Tables>,
  scope: AccessScope,
  { readerId, ...filter }: FactFilter & { readerId: string },
): Promise<{ count: number; othersCount: number }> {
  return selectFacts(db, scope, filter)
    .select(({ fn }) => [
      fn.countAll<number>().as('count'),
      fn.countAll<number>().filterWhere('user_id', 'is distinct from', readerId).as('othersCount'),
    ])
    .executeTakeFirstOrThrow();
}

function selectFacts(db: Kysely<Tables>, scope: AccessScope, { category, words = [] }: FactFilter) {
  let query = db.selectFrom('memory_facts').where(whereInScope(scope, 'user_id'));
  if (category !== undefined) query = query.where(categoryColumn, '=', category);
  if (words.length === 0) return query;
  // `***=` marks a literal pattern. Unlike with ILIKE, a match takes time linear in the length of the text.
  const patterns = words.map((word) => `***=${word}`);
  return query.where(
    sql<boolean>`concat_ws(' ', category, key, value) ~* all(${patterns}::text[])`,
  );
}

/** Lists at most `limit` facts of a user with IDs above `after`, ordered by ID. */
export function listFactsOfUser(
  db: Kysely<Tables>,
  { userId, after = '', limit }: { userId: string; after?: string | undefined; limit: number },
): Promise<Fact[]> {
  return db
    .selectFrom('memory_facts')
    .select(factColumns)
    .where('user_id', '=', userId)
    .where('id', '>', after)
    .orderBy('id')
    .limit(limit)
    .execute();
}

/** Finds the value and origin of a fact. Returns undefined if the user has no such fact. */
export async function findFact(
  db: Kysely<Tables>,
  fact: FactKey,
): Promise<{ value: string; origin: FactOrigin } | undefined> {
  const row = await db
    .selectFrom('memory_facts')
    .select([
      sql<string>`coalesce(value, '')`.as('value'),
      'source_session_id',
      sql<string | null>`to_json(created_at) #>> '{}'`.as('created_at'),
      sql<string | null>`to_json(updated_at) #>> '{}'`.as('updated_at'),
    ])
    .where(whereFact(fact))
    .executeTakeFirst();
  if (row === undefined) return undefined;
  const { value, ...origin } = row;
  return { value, origin };
}

const whereFact = ({ userId, category, key }: FactKey) =>
  sql<boolean>`(user_id = ${userId} and category = ${category} and key = ${key})`;

/**
 * Inserts or updates a fact of a user.
 * @param fact.origin Source and times of an earlier fact, to restore them. By default, the update time is now, and so
 *   is the creation time of a new fact.
 */
export function writeFact(
  trx: Transaction<Tables>,
  fact: FactKey & { value: string } & ({ sourceSessionId: string | null } | { origin: FactOrigin }),
): Promise<Fact> {
  const { userId, category, key, value } = fact;
  const origin = 'origin' in fact ? fact.origin : undefined;
  const resolveTime = (column: 'created_at' | 'updated_at') =>
    origin === undefined ? sql<Date>`now()` : sql<Date>`${origin[column]}::timestamptz`;
  return trx
    .insertInto('memory_facts')
    .values({
      id: randomUUID(),
      user_id: userId,
      category,
      key,
      value,
      source_session_id: 'origin' in fact ? fact.origin.source_session_id : fact.sourceSessionId,
      created_at: resolveTime('created_at'),
      updated_at: resolveTime('updated_at'),
    })
    .onConflict((conflict) =>
      conflict.columns(['user_id', 'category', 'key']).doUpdateSet((eb) => ({
        value: eb.ref('excluded.value'),
        source_session_id: eb.ref('excluded.source_session_id'),
        updated_at: eb.ref('excluded.updated_at'),
        ...(origin !== undefined && { created_at: eb.ref('excluded.created_at') }),
      })),
    )
    .returning(factColumns)
    .executeTakeFirstOrThrow();
}

/** Deletes one of a user's facts, if it exists. */
export async function deleteFact(db: Kysely<Tables>, fact: FactKey): Promise<void> {
  await db.deleteFrom('memory_facts').where(whereFact(fact)).execute();
}

/**
 * Checks that a user may have one more fact.
 * @param advice Next step after the deletion of a fact, for the error message.
 * @throws ProblemError `memory_full`
 */
export async function checkFactLimit(
  trx: Transaction<Tables>,
  userId: string,
  advice: string,
): Promise<void> {
  const { count } = await countFacts(trx, { userId }, { readerId: userId });
  if (count < MAX_FACTS) return;
  throw problem('memory_full', {
    detail: `You have ${MAX_FACTS} facts, which is the maximum. Delete a fact that you no longer need, then ${advice}.`,
  });
}

/**
 * Undoes the given changes to a user's memory, or none if one of the facts has changed since.
 * @returns Whether the changes were undone.
 * @throws ProblemError `memory_full`
 */
export async function undoChanges(
  trx: Transaction<Tables>,
  { userId, sessionId }: { userId: string; sessionId: string },
  changes: readonly RecordedChange[],
): Promise<boolean> {
  for (const { category, key, value } of changes) {
    const currentFact = await findFact(trx, { userId, category, key });
    if (currentFact?.value !== (value ?? undefined)) return false;
  }
  for (const { category, key, value: changedValue, previous: previousValue, origin } of changes) {
    const fact = { userId, category, key };
    if (previousValue === null) {
      await deleteFact(trx, fact);
      continue;
    }
    if (changedValue === null) await checkFactLimit(trx, userId, 'undo this again');
    // Older releases stored no origin, so the session becomes the source of the restored fact.
    const source = origin === undefined ? { sourceSessionId: sessionId } : { origin };
    await writeFact(trx, { ...fact, value: previousValue, ...source });
  }
  return true;
}

/** Deletes a user's memory and returns the numbers of deleted rows. */
export async function deleteMemory(
  trx: Transaction<Tables>,
  userId: string,
): Promise<{ facts: number; summaries: number }> {
  const deleteRows = async (table: 'memory_facts' | 'memory_summaries') => {
    const query = trx.deleteFrom(table).where('user_id', '=', userId);
    return Number((await query.executeTakeFirstOrThrow()).numDeletedRows);
  };
  const facts = await deleteRows('memory_facts');
  return { facts, summaries: await deleteRows('memory_summaries') };
}
