import { type RawBuilder, sql, type Transaction } from 'kysely';
import { written } from '../memory/facts.ts';
import type { Tables } from '../tables.ts';

/** What identifies a fact within a user. */
export type FactName = { category: string; key: string };

/** What became of the legacy facts: there were `assigned`, `kept` and `doubles` of them, all in all. */
export type AssignedFacts = {
  /** How many are the user's now. */
  assigned: number;
  /** Those of them that were newer than the user's own, which was deleted. */
  replaced: FactName[];
  /** Where the user's own was newer, or as new: the legacy one was deleted. */
  kept: FactName[];
  /** How many were deleted because a newer legacy fact had the same name. */
  doubles: number;
};

/**
 * The legacy facts and the user's own, those of one name ranked: the newest first, of equal ones the
 * user's own.
 */
const rivals = (userId: string): RawBuilder<unknown> => sql`(
  select id, user_id as owner, category, key,
    row_number() over newest as rank,
    first_value(user_id) over newest as survivor_owner,
    count(*) over same_name as number,
    min(created_at) over same_name as first_created_at
  from memory_facts
  where user_id is null or user_id = ${userId}
  window same_name as (partition by category, key),
    newest as (same_name order by ${written.time} desc, user_id is null, id desc)
)`;

/**
 * Gives a user the facts that have no owner. Of those with the same category and key, among them or at
 * the user's, the newest value is kept, with the earliest time of creation, and the others are
 * deleted. Specification 000, Legacy data.
 * @param trx Holds a lock that keeps other writers of facts out.
 */
export async function assignFacts(
  trx: Transaction<Tables>,
  userId: string,
): Promise<AssignedFacts> {
  // A value whose only time was that of its creation keeps it as the time that it was written at.
  await sql`
    update memory_facts
    set created_at = rivals.first_created_at,
      updated_at = coalesce(memory_facts.updated_at, memory_facts.created_at)
    from ${rivals(userId)} as rivals
    where memory_facts.id = rivals.id and rank = 1 and number > 1`.execute(trx);
  const lost = await deleteLosers(trx, userId);
  const { numUpdatedRows } = await trx
    .updateTable('memory_facts')
    .set({ user_id: userId })
    .where('user_id', 'is', null)
    .executeTakeFirst();
  const kept = lost.filter(({ isOwnKept }) => isOwnKept);
  const legacyDeleted = lost.reduce((sum, { legacyDeleted: count }) => sum + count, 0);
  return {
    assigned: Number(numUpdatedRows),
    replaced: lost.filter(({ isOwnDeleted }) => isOwnDeleted).map(toName),
    kept: kept.map(toName),
    doubles: legacyDeleted - kept.length,
  };
}

type Lost = FactName & { legacyDeleted: number; isOwnDeleted: boolean; isOwnKept: boolean };

async function deleteLosers(trx: Transaction<Tables>, userId: string): Promise<Lost[]> {
  const { rows } = await sql<Lost>`
    with lost as (
      delete from memory_facts using ${rivals(userId)} as rivals
      where memory_facts.id = rivals.id and rank > 1
      returning rivals.category, rivals.key, owner, survivor_owner
    )
    select coalesce(category, '') as category, coalesce(key, '') as key,
      count(*) filter (where owner is null) as "legacyDeleted",
      bool_or(owner is not null) as "isOwnDeleted",
      bool_or(survivor_owner is not null) as "isOwnKept"
    from lost group by lost.category, lost.key order by 1, 2`.execute(trx);
  return rows;
}

const toName = ({ category, key }: Lost): FactName => ({ category, key });
