import { type Kysely, sql, type Transaction } from 'kysely';
import { storableJson } from '../text.ts';
import type { MemoryChange, NotedChange } from '../memory/facts.ts';
import type { Tables } from '../tables.ts';

/** A step of the agent, within a turn of the conversation. Contract 3, Answers. */
export type Step = {
  id: string;
  turn_id: string;
  kind: string;
  title: string;
  status: string;
  detail: string | null;
  started_at: Date;
  /** Null while it runs. */
  finished_at: Date | null;
};

/**
 * The steps of a session, whoever's it is, the newest first: for admins.
 * @param before The number of the last step of the page before.
 * @returns At most `limit`, each with its number.
 */
export function listSteps(
  db: Kysely<Tables>,
  { sessionId, before, limit }: { sessionId: string; before?: number | undefined; limit: number },
): Promise<(Step & { position: number })[]> {
  let query = db
    .selectFrom('agent_steps')
    .select(['id', 'turn_id', 'kind', 'title', 'status', 'detail', 'started_at', 'finished_at'])
    .select('position')
    .where('session_id', '=', sessionId)
    .orderBy('position', 'desc')
    .limit(limit);
  if (before !== undefined) query = query.where('position', '<', before);
  return query.execute();
}

/** What begins in a turn. */
export type NewStep = {
  session_id: string;
  turn_id: string;
  kind: 'tool' | 'summary';
  title: string;
  detail: string;
};

/** Notes that a step has begun. */
export async function startStep(db: Kysely<Tables>, step: NewStep): Promise<{ id: string }> {
  return db
    .insertInto('agent_steps')
    .values({ ...step, status: 'running', finished_at: null })
    .returning('id')
    .executeTakeFirstOrThrow();
}

/** Notes what came of a step. */
export async function finishStep(
  db: Kysely<Tables>,
  id: string,
  end: { status: 'done' | 'failed'; detail: string },
): Promise<void> {
  await db
    .updateTable('agent_steps')
    .set({ ...end, finished_at: sql<Date>`clock_timestamp()` })
    .where('id', '=', id)
    .execute();
}

/** Notes what a step changes in the user's memory, in the transaction that changes it. */
export async function noteChanges(
  trx: Transaction<Tables>,
  id: string,
  changes: readonly NotedChange[],
): Promise<void> {
  await trx
    .updateTable('agent_steps')
    .set({ changes: storableJson(changes) })
    .where('id', '=', id)
    .execute();
}

/**
 * Ends the steps of a turn that were not finished. What one had changed by then is done, whatever became of the
 * process that did it.
 */
export async function endSteps(
  trx: Transaction<Tables>,
  { turnId, sessionId }: { turnId: string; sessionId: string },
): Promise<void> {
  await trx
    .updateTable('agent_steps')
    .set({
      status: sql<string>`case when changes is null then 'failed' else 'done' end`,
      finished_at: sql<Date>`clock_timestamp()`,
    })
    // By its session the index finds them.
    .where('session_id', '=', sessionId)
    .where('turn_id', '=', turnId)
    .where('status', '=', 'running')
    .execute();
}

/** A step that changed the user's memory, with the tool that did. */
export type ChangedStep = {
  id: string;
  tool: string;
  title: string;
  changes: readonly MemoryChange[];
};

/** The steps of a turn that changed the user's memory, in their order, but for those that were taken back. */
export async function changedSteps(
  db: Kysely<Tables>,
  { turnId, sessionId }: { turnId: string; sessionId: string },
): Promise<ChangedStep[]> {
  const steps = await db
    .selectFrom('agent_steps')
    .select(['id', 'title', 'changes', sql<string>`detail::jsonb ->> 'tool'`.as('tool')])
    .where('session_id', '=', sessionId)
    .where('turn_id', '=', turnId)
    .where('changes', 'is not', null)
    .where('undone_at', 'is', null)
    .orderBy('position')
    .execute();
  // They were written by `noteChanges`; where a fact came from is for undoing alone.
  return (steps as (ChangedStep & { changes: NotedChange[] })[]).map((step) => ({
    ...step,
    changes: step.changes.map(({ category, key, value, previous }) => ({
      category,
      key,
      value,
      previous,
    })),
  }));
}

/**
 * What a step of a session changed in the user's memory and has not been taken back; the step is locked.
 * @returns Nothing where it changed nothing, or there is no such step.
 */
export async function lockChanges(
  trx: Transaction<Tables>,
  { sessionId, stepId }: { sessionId: string; stepId: string },
): Promise<readonly NotedChange[]> {
  const step = await trx
    .selectFrom('agent_steps')
    .select('changes')
    .where('id', '=', stepId)
    .where('session_id', '=', sessionId)
    .where('undone_at', 'is', null)
    .forUpdate()
    .executeTakeFirst();
  // They were written by `noteChanges`.
  return (step?.changes ?? []) as NotedChange[];
}

/** Notes that what a step changed has been taken back. */
export async function noteUndone(trx: Transaction<Tables>, stepId: string): Promise<void> {
  await trx
    .updateTable('agent_steps')
    .set({ undone_at: sql<Date>`now()` })
    .where('id', '=', stepId)
    .execute();
}
