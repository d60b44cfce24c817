import { sql, type Transaction } from 'kysely';
import type { Tables } from '../tables.ts';
import { mergeSummaries } from './merge-summaries.ts';

/** What became of the legacy summaries, and how many there were. */
export type AssignedSummaries = { outcome: 'none' | 'assigned' | 'merged'; legacy: number };

/**
 * Gives a user the summaries that have no owner, as one, merged with the user's own where there is one.
 * Its time is that of the newest. Specification 000, Legacy data.
 * @param trx Holds a lock that keeps other writers of summaries out.
 */
export async function assignSummaries(
  trx: Transaction<Tables>,
  userId: string,
): Promise<AssignedSummaries> {
  const rows = await trx
    .selectFrom('memory_summaries')
    .select(['id', 'user_id', sql<string>`coalesce(summary, '')`.as('summary')])
    .where((where) => where.or([where('user_id', 'is', null), where('user_id', '=', userId)]))
    // The older ones first; the user's own counts as the newest of its time.
    .orderBy(sql`coalesce(updated_at, '-infinity'), user_id is not null, id`)
    .execute();
  const own = rows.find(({ user_id }) => user_id !== null);
  const survivor = own ?? rows.at(-1);
  const legacy = rows.length - (own === undefined ? 0 : 1);
  if (survivor === undefined || legacy === 0) return { outcome: 'none', legacy: 0 };
  await sql`
    update memory_summaries
    set user_id = ${userId},
      summary = ${mergeSummaries(rows.map(({ summary }) => summary))},
      updated_at = (
        select max(updated_at) from memory_summaries where user_id is null or user_id = ${userId}
      )
    where id = ${survivor.id}`.execute(trx);
  await trx.deleteFrom('memory_summaries').where('user_id', 'is', null).execute();
  return { outcome: own === undefined ? 'assigned' : 'merged', legacy };
}
