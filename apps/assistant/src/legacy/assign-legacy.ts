import type { Database } from '@oselya/db';
import type { Transaction } from 'kysely';
import { recordAudit } from '../admin/audit.ts';
import type { Tables } from '../tables.ts';
import { type AssignedFacts, assignFacts } from './facts.sql.ts';
import { assignSessions, keepUser, lockMemory } from './sessions.sql.ts';
import { type AssignedSummaries, assignSummaries } from './summaries.sql.ts';

/** What was without an owner, and what became of it. */
export type LegacyReport = {
  /** How many conversation sessions are the user's now, with their messages and files. */
  sessions: number;
  facts: AssignedFacts;
  summaries: AssignedSummaries;
};

/** Nobody with that id has signed in. Specification 000, Legacy data, step 1. */
export class UnknownUserError extends Error {
  override readonly name = 'UnknownUserError';

  constructor(userId: string) {
    super(
      `there is no user ${JSON.stringify(userId)}: whoever is to own the data has to sign in once before`,
    );
  }
}

/**
 * Gives a user all sessions, memory facts and memory summaries that have no owner. It is one
 * transaction, beside which the service may run: other writers of memory wait for its end, and a second
 * run at the same moment finds nothing left. Specification 000, Legacy data; Contract 1.
 * @param dryRun The very same work is done and then undone: the report is what would happen.
 * @throws UnknownUserError
 */
export async function assignLegacy(
  { db }: Pick<Database<Tables>, 'db'>,
  { userId, dryRun = false }: { userId: string; dryRun?: boolean },
): Promise<LegacyReport> {
  try {
    return await db.transaction().execute(async (trx) => {
      const report = await assign(trx, userId);
      if (dryRun) throw new Undone(report);
      if (!foundNothing(report)) await record(trx, userId, report);
      return report;
    });
  } catch (error) {
    if (error instanceof Undone) return error.report;
    throw error;
  }
}

/** Whether everything had an owner already. */
export function foundNothing({ sessions, facts, summaries }: LegacyReport): boolean {
  return sessions + facts.assigned + facts.kept.length + facts.doubles + summaries.legacy === 0;
}

/** Rolls a dry run back. */
class Undone extends Error {
  readonly report: LegacyReport;

  constructor(report: LegacyReport) {
    super('This was a dry run');
    this.report = report;
  }
}

async function assign(trx: Transaction<Tables>, userId: string): Promise<LegacyReport> {
  if (!(await keepUser(trx, userId))) throw new UnknownUserError(userId);
  await lockMemory(trx);
  return {
    sessions: await assignSessions(trx, userId),
    facts: await assignFacts(trx, userId),
    summaries: await assignSummaries(trx, userId),
  };
}

async function record(
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
