import { type Kysely, sql } from 'kysely';
import { whereInScope, type AccessScope } from '../access/permissions.ts';
import type { Tables } from '../tables.ts';
import { newestFirst, type Position } from '../pages.ts';

/** What the assistant knows of a user in a few sentences. */
export type Summary = {
  /** Null marks a legacy summary, visible only to admins. */
  user_id: string | null;
  summary: string;
  /** Rows of an older system may lack it. */
  updated_at: Date | null;
};

const updated = newestFirst('updated_at');

const summaryColumns = [
  'user_id',
  sql<string>`coalesce(summary, '')`.as('summary'),
  'updated_at',
] as const;

/** A user's summary; nothing where there is none. */
export function findSummary(db: Kysely<Tables>, userId: string): Promise<Summary | undefined> {
  return db
    .selectFrom('memory_summaries')
    .select(summaryColumns)
    .where('user_id', '=', userId)
    .executeTakeFirst();
}

/**
 * Summaries, the most recently updated first.
 * @param after Where the page before ended.
 * @returns At most `limit` summaries, each with its position.
 */
export async function listSummaries(
  db: Kysely<Tables>,
  reach: AccessScope,
  { limit, after }: { limit: number; after: Position | undefined },
): Promise<(Summary & { position: Position })[]> {
  let query = db
    .selectFrom('memory_summaries')
    .select(['id', ...summaryColumns, updated.microseconds.as('updated_us')])
    .where(whereInScope(reach, 'user_id'))
    .orderBy(updated.time, 'desc')
    .orderBy('id', 'desc')
    .limit(limit);
  if (after !== undefined) query = query.where(updated.isAfter(after));
  const rows = await query.execute();
  return rows.map(({ id, updated_us, ...summary }) => ({ ...summary, position: [updated_us, id] }));
}
