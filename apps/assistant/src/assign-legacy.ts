import type { Database } from '@oselya/db';
import { sql, type Transaction } from 'kysely';
import { recordAudit } from './admin/audit.ts';
import { factOrder } from './memory/facts.ts';
import type { Tables } from './tables.ts';

type FactName = { category: string; key: string };

/** Numbers of assigned rows, and changes to the user's memory. */
export type LegacyReport = {
  sessions: number;
  facts: {
    assigned: number;
    /** Assigned facts that replaced an older fact of the user. */
    replaced: FactName[];
    /** Facts of the user that are not older than the deleted legacy fact. */
    kept: FactName[];
    /** Number of legacy facts that were deleted because another legacy fact of the same name is as new or newer. */
    duplicates: number;
  };
  summaries: { outcome: 'none' | 'assigned' | 'merged'; legacy: number };
};

/** Thrown for a user who has never signed in. Specification 000, Legacy data, step 1. */
export class UnknownUserError extends Error {
  override readonly name = 'UnknownUserError';

  constructor(userId: string) {
    super(`there is no user ${JSON.stringify(userId)}: the new owner has to sign in once first`);
  }
}

/**
 * Assigns all sessions, memory facts and memory summaries without an owner to a user, in one transaction. The service
 * may be running: other writers of memory wait, and a concurrent run finds nothing left. Specification 000, Legacy
 * data; Contract 1.
 * @param options.dryRun Whether to roll back. The report is then a preview.
 * @throws UnknownUserError
 */
export async function assignLegacy(
  { db }: Pick<Database<Tables>, 'db'>,
  { userId, dryRun = false }: { userId: string; dryRun?: boolean },
): Promise<LegacyReport> {
  const trx = await db.startTransaction().execute();
  try {
    const report = await assignAll(trx, userId);
    await (dryRun ? trx.rollback() : trx.commit()).execute();
    return report;
  } catch (error) {
    if (!trx.isCommitted && !trx.isRolledBack) await trx.rollback().execute();
    throw error;
  }
}

async function assignAll(trx: Transaction<Tables>, userId: string): Promise<LegacyReport> {
  const user = await trx
    .selectFrom('svc_users')
    .select('id')
    .where('id', '=', userId)
    .forKeyShare()
    .executeTakeFirst();
  if (user === undefined) throw new UnknownUserError(userId);
  // Without the lock, facts that other processes write during the assignment could be lost or duplicated.
  await sql`lock table memory_facts, memory_summaries in share row exclusive mode`.execute(trx);
  const sessions = await assignRows(trx, 'conversation_sessions', userId);
  const facts = await assignFacts(trx, userId);
  const summaries = await assignSummaries(trx, userId);
  const report = { sessions, facts, summaries };
  if (!isEmptyReport(report)) {
    const details = {
      sessions,
      facts_assigned: facts.assigned,
      facts_replaced: facts.replaced.length,
      facts_kept: facts.kept.length,
      fact_doubles: facts.duplicates,
      summaries: summaries.legacy,
    };
    await recordAudit(trx, { action: 'legacy_assigned', actorId: null, userId, details });
  }
  return report;
}

/** Returns whether all data already had an owner. */
export function isEmptyReport({ sessions, facts, summaries }: LegacyReport): boolean {
  return sessions + facts.assigned + facts.kept.length + facts.duplicates + summaries.legacy === 0;
}

async function assignRows(
  trx: Transaction<Tables>,
  table: 'conversation_sessions' | 'memory_facts',
  userId: string,
): Promise<number> {
  const { numAffectedRows = 0n } = await sql`
    update ${sql.table(table)} set user_id = ${userId} where user_id is null`.execute(trx);
  return Number(numAffectedRows);
}

/** Builds a subquery that ranks the facts of each name, newest first, and the user's fact first among equal times. */
const buildFactRanking = (userId: string) => sql`(
  select id, user_id as owner, category, key,
    row_number() over newest as rank,
    first_value(user_id) over newest as survivor_owner,
    count(*) over same_name as number,
    min(created_at) over same_name as first_created_at
  from memory_facts
  where user_id is null or user_id = ${userId}
  window same_name as (partition by category, key),
    newest as (same_name order by ${factOrder.time} desc, user_id is null, id desc)
)`;

/** Assigns the newest fact of each name, with the earliest creation time, and deletes the others. */
async function assignFacts(
  trx: Transaction<Tables>,
  userId: string,
): Promise<LegacyReport['facts']> {
  // Without `updated_at`, a fact's `created_at` is the time of its last change. Copy it before it is overwritten.
  await sql`
    update memory_facts
    set created_at = ranked.first_created_at,
      updated_at = coalesce(memory_facts.updated_at, memory_facts.created_at)
    from ${buildFactRanking(userId)} as ranked
    where memory_facts.id = ranked.id and rank = 1 and number > 1`.execute(trx);
  const { rows: deletedRows } = await sql<
    FactName & { legacyDeleted: number; isOwnDeleted: boolean; isOwnKept: boolean }
  >`
    with deleted as (
      delete from memory_facts using ${buildFactRanking(userId)} as ranked
      where memory_facts.id = ranked.id and rank > 1
      returning ranked.category, ranked.key, owner, survivor_owner
    )
    select coalesce(category, '') as category, coalesce(key, '') as key,
      count(*) filter (where owner is null) as "legacyDeleted",
      bool_or(owner is not null) as "isOwnDeleted",
      bool_or(survivor_owner is not null) as "isOwnKept"
    from deleted group by deleted.category, deleted.key order by 1, 2`.execute(trx);
  const listFactNames = (property: 'isOwnKept' | 'isOwnDeleted') =>
    deletedRows.filter((row) => row[property]).map(({ category, key }) => ({ category, key }));
  const keptFacts = listFactNames('isOwnKept');
  const legacyDeletedCount = deletedRows.reduce((sum, row) => sum + row.legacyDeleted, 0);
  return {
    assigned: await assignRows(trx, 'memory_facts', userId),
    replaced: listFactNames('isOwnDeleted'),
    kept: keptFacts,
    duplicates: legacyDeletedCount - keptFacts.length,
  };
}

/** Merges the legacy summaries and the user's summary into one summary with the latest time. */
async function assignSummaries(
  trx: Transaction<Tables>,
  userId: string,
): Promise<LegacyReport['summaries']> {
  const rows = await trx
    .selectFrom('memory_summaries')
    .select(['id', 'user_id', sql<string>`coalesce(summary, '')`.as('summary')])
    .where((where) => where.or([where('user_id', 'is', null), where('user_id', '=', userId)]))
    // Oldest first. Among summaries with the same time, the user's summary is last.
    .orderBy(sql`coalesce(updated_at, '-infinity'), user_id is not null, id`)
    .execute();
  const ownSummary = rows.find(({ user_id }) => user_id !== null);
  const mergedRow = ownSummary ?? rows.at(-1);
  const legacyCount = rows.length - (ownSummary === undefined ? 0 : 1);
  if (mergedRow === undefined || legacyCount === 0) return { outcome: 'none', legacy: 0 };
  await sql`
    update memory_summaries
    set user_id = ${userId},
      summary = ${mergeSummaries(rows.map(({ summary }) => summary))},
      updated_at = (
        select max(updated_at) from memory_summaries where user_id is null or user_id = ${userId}
      )
    where id = ${mergedRow.id}`.execute(trx);
  await trx.deleteFrom('memory_summaries').where('user_id', 'is', null).execute();
  return { outcome: ownSummary === undefined ? 'assigned' : 'merged', legacy: legacyCount };
}

/** Joins summaries with blank lines, oldest first. Omits a summary that another summary contains. */
function mergeSummaries(texts: readonly string[]): string {
  let mergedTexts: string[] = [];
  for (const text of texts.map((summary) => summary.trim())) {
    if (mergedTexts.some((earlierText) => earlierText.includes(text))) continue;
    mergedTexts = [...mergedTexts.filter((earlierText) => !text.includes(earlierText)), text];
  }
  return mergedTexts.join('\n\n');
}
