import type { Database } from '@oselya/db';
import { type RawBuilder, sql, type Transaction } from 'kysely';
import { recordAudit } from './admin/audit.ts';
import { written } from './memory/facts.ts';
import type { Tables } from './tables.ts';

type FactName = { category: string; key: string };

/** The data without an owner, and its assignment. */
export type LegacyReport = {
  /** The number of conversation sessions, with their messages and files. */
  sessions: number;
  facts: {
    /** The number of facts that were assigned. */
    assigned: number;
    /** Assigned facts that were newer than the user's own, which were deleted. */
    replaced: FactName[];
    /** The user's own facts that were newer, or as new: the legacy ones were deleted. */
    kept: FactName[];
    /** The number of facts that were deleted because a newer legacy fact had the same name. */
    doubles: number;
  };
  summaries: { outcome: 'none' | 'assigned' | 'merged'; legacy: number };
};

/** No user with that id has signed in. Specification 000, Legacy data, step 1. */
export class UnknownUserError extends Error {
  override readonly name = 'UnknownUserError';

  constructor(userId: string) {
    super(`there is no user ${JSON.stringify(userId)}: the new owner has to sign in once first`);
  }
}

/** Rolls back a dry run. */
class DryRunError extends Error {
  readonly report: LegacyReport;

  constructor(report: LegacyReport) {
    super('This was a dry run');
    this.report = report;
  }
}

/**
 * Assigns all sessions, memory facts and memory summaries without an owner to a user, in one transaction. The service
 * may run meanwhile: other writers of memory wait, and a concurrent run finds nothing left. Specification 000, Legacy
 * data; Contract 1.
 * @param options.dryRun Whether to roll back, so that the report is only a preview.
 * @throws UnknownUserError
 */
export async function assignLegacy(
  { db }: Pick<Database<Tables>, 'db'>,
  { userId, dryRun = false }: { userId: string; dryRun?: boolean },
): Promise<LegacyReport> {
  try {
    return await db.transaction().execute(async (trx) => {
      const user = await trx
        .selectFrom('svc_users')
        .select('id')
        .where('id', '=', userId)
        .forKeyShare()
        .executeTakeFirst();
      if (user === undefined) throw new UnknownUserError(userId);
      // A fact that was written between comparison and assignment would be lost or doubled.
      await sql`lock table memory_facts, memory_summaries in share row exclusive mode`.execute(trx);
      const report = {
        sessions: await assignSessions(trx, userId),
        facts: await assignFacts(trx, userId),
        summaries: await assignSummaries(trx, userId),
      };
      if (dryRun) throw new DryRunError(report);
      if (!foundNothing(report)) await recordReport(trx, userId, report);
      return report;
    });
  } catch (error) {
    if (error instanceof DryRunError) return error.report;
    throw error;
  }
}

/** Returns whether everything had an owner already. */
export function foundNothing({ sessions, facts, summaries }: LegacyReport): boolean {
  return sessions + facts.assigned + facts.kept.length + facts.doubles + summaries.legacy === 0;
}

async function recordReport(
  trx: Transaction<Tables>,
  userId: string,
  { sessions, facts, summaries }: LegacyReport,
): Promise<void> {
  await recordAudit(trx, {
    action: 'legacy_assigned',
    actorId: null,
    userId,
    details: {
      sessions,
      facts_assigned: facts.assigned,
      facts_replaced: facts.replaced.length,
      facts_kept: facts.kept.length,
      fact_doubles: facts.doubles,
      summaries: summaries.legacy,
    },
  });
}

async function assignSessions(trx: Transaction<Tables>, userId: string): Promise<number> {
  const { numUpdatedRows } = await trx
    .updateTable('conversation_sessions')
    .set({ user_id: userId })
    .where('user_id', 'is', null)
    .executeTakeFirst();
  return Number(numUpdatedRows);
}

/** Ranks the legacy facts and the user's own by name: the newest first, and of equal age the user's own. */
const rankedFacts = (userId: string): RawBuilder<unknown> => sql`(
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

/** Keeps the newest fact of each name, with the earliest creation time, and deletes the others. */
async function assignFacts(
  trx: Transaction<Tables>,
  userId: string,
): Promise<LegacyReport['facts']> {
  // A fact without `updated_at` keeps its own creation time as that.
  await sql`
    update memory_facts
    set created_at = ranked.first_created_at,
      updated_at = coalesce(memory_facts.updated_at, memory_facts.created_at)
    from ${rankedFacts(userId)} as ranked
    where memory_facts.id = ranked.id and rank = 1 and number > 1`.execute(trx);
  const { rows: deleted } = await sql<
    FactName & { legacyDeleted: number; isOwnDeleted: boolean; isOwnKept: boolean }
  >`
    with deleted as (
      delete from memory_facts using ${rankedFacts(userId)} as ranked
      where memory_facts.id = ranked.id and rank > 1
      returning ranked.category, ranked.key, owner, survivor_owner
    )
    select coalesce(category, '') as category, coalesce(key, '') as key,
      count(*) filter (where owner is null) as "legacyDeleted",
      bool_or(owner is not null) as "isOwnDeleted",
      bool_or(survivor_owner is not null) as "isOwnKept"
    from deleted group by deleted.category, deleted.key order by 1, 2`.execute(trx);
  const { numUpdatedRows } = await trx
    .updateTable('memory_facts')
    .set({ user_id: userId })
    .where('user_id', 'is', null)
    .executeTakeFirst();
  const nameOf = ({ category, key }: FactName) => ({ category, key });
  const kept = deleted.filter(({ isOwnKept }) => isOwnKept).map(nameOf);
  const legacyDeleted = deleted.reduce((sum, row) => sum + row.legacyDeleted, 0);
  return {
    assigned: Number(numUpdatedRows),
    replaced: deleted.filter(({ isOwnDeleted }) => isOwnDeleted).map(nameOf),
    kept,
    doubles: legacyDeleted - kept.length,
  };
}

/** Merges the legacy summaries into one, with the user's own if there is one, under the time of the newest. */
async function assignSummaries(
  trx: Transaction<Tables>,
  userId: string,
): Promise<LegacyReport['summaries']> {
  const rows = await trx
    .selectFrom('memory_summaries')
    .select(['id', 'user_id', sql<string>`coalesce(summary, '')`.as('summary')])
    .where((where) => where.or([where('user_id', 'is', null), where('user_id', '=', userId)]))
    // Oldest first; the user's own is the newest of its time.
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

/**
 * Joins summaries with a blank line between them, and omits those that another one contains.
 * @param texts Oldest first.
 */
function mergeSummaries(texts: readonly string[]): string {
  let merged: string[] = [];
  for (const text of texts.map((one) => one.trim())) {
    if (merged.some((other) => other.includes(text))) continue;
    merged = [...merged.filter((other) => !text.includes(other)), text];
  }
  return merged.join('\n\n');
}
