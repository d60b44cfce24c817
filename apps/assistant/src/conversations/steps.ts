import { type Kysely, sql, type Transaction } from 'kysely';
import { problem } from '../errors.ts';
import { storableJson } from '../text.ts';
import { lockMemoryOf, type MemoryChange, type NotedChange, undoChanges } from '../memory/facts.ts';
import type { Tables } from '../tables.ts';

/** A step of the agent in a turn. Contract 3, Answers. */
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

type TurnOfSession = { turnId: string; sessionId: string };

/**
 * Returns steps of a session with their numbers, newest first, for any owner.
 * @param page.before The number of the last step of the page before.
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

/** Inserts a running step. */
export async function startStep(
  db: Kysely<Tables>,
  step: {
    session_id: string;
    turn_id: string;
    kind: 'tool' | 'summary';
    title: string;
    detail: string;
  },
): Promise<string> {
  const { id } = await db
    .insertInto('agent_steps')
    .values({ ...step, status: 'running', finished_at: null })
    .returning('id')
    .executeTakeFirstOrThrow();
  return id;
}

/** Stores the result of a step. */
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

/** Stores the change that a step makes in the user's memory, in the transaction of the change. */
export async function storeChange(
  trx: Transaction<Tables>,
  id: string,
  change: NotedChange,
): Promise<void> {
  await trx
    .updateTable('agent_steps')
    .set({ changes: storableJson([change]) })
    .where('id', '=', id)
    .execute();
}

/** Ends the running steps of a turn that ends: as done where they have changed the memory, else as failed. */
export async function endSteps(
  trx: Transaction<Tables>,
  { turnId, sessionId }: TurnOfSession,
): Promise<void> {
  await trx
    .updateTable('agent_steps')
    .set({
      status: sql<string>`case when changes is null then 'failed' else 'done' end`,
      finished_at: sql<Date>`clock_timestamp()`,
    })
    // The index is on the session.
    .where('session_id', '=', sessionId)
    .where('turn_id', '=', turnId)
    .where('status', '=', 'running')
    .execute();
}

/** A step that changed the user's memory, and its tool. */
export type ChangedStep = { id: string; tool: string; title: string; changes: MemoryChange[] };

/** Returns the steps of a turn that changed the user's memory, oldest first, without those that were undone. */
export async function changedSteps(
  db: Kysely<Tables>,
  { turnId, sessionId }: TurnOfSession,
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
  // Written by `storeChange`; only undoing needs the origin of a fact.
  return steps.map((step) => ({
    ...step,
    changes: (step.changes as NotedChange[]).map(({ origin: _origin, ...change }) => change),
  }));
}

/**
 * Undoes the changes of a step in the user's memory: all of them, or none if a fact has changed since.
 * @throws ProblemError `nothing_to_undo`, or `memory_full` where facts that come back exceed the limit.
 */
export function undoStep(
  db: Kysely<Tables>,
  { userId, sessionId, stepId }: { userId: string; sessionId: string; stepId: string },
): Promise<void> {
  return db.transaction().execute(async (trx) => {
    await lockMemoryOf(trx, userId);
    const step = await trx
      .selectFrom('agent_steps')
      .select('changes')
      .where('id', '=', stepId)
      .where('session_id', '=', sessionId)
      .where('undone_at', 'is', null)
      .forUpdate()
      .executeTakeFirst();
    const changes = (step?.changes ?? []) as NotedChange[];
    if (changes.length === 0) throw problem('nothing_to_undo');
    const isUndone = await undoChanges(trx, { userId, sessionId }, changes);
    if (!isUndone) throw problem('nothing_to_undo');
    await trx
      .updateTable('agent_steps')
      .set({ undone_at: sql<Date>`now()` })
      .where('id', '=', stepId)
      .execute();
  });
}
