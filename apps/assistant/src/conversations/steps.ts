import type { MemoryChange } from '@oselya/protocol';
import { type Kysely, sql, type Transaction } from 'kysely';
import { problem } from '../errors.ts';
import { lockMemory, type RecordedChange, undoChanges } from '../memory/facts.ts';
import type { Tables } from '../tables.ts';

/** An agent step in a turn. Contract 3, Further endpoints. */
export type AgentStep = {
  id: string;
  turn_id: string;
  kind: string;
  title: string;
  status: string;
  detail: string | null;
  started_at: Date;
  /** Null while the step runs. */
  finished_at: Date | null;
};

type StepTurn = { turnId: string; sessionId: string };

/**
 * Returns a session's steps with their positions, newest first. Callers must check access.
 * @param page.before Position of the previous page's last step.
 */
export function listSteps(
  db: Kysely<Tables>,
  { sessionId, before, limit }: { sessionId: string; before?: number | undefined; limit: number },
): Promise<(AgentStep & { position: number })[]> {
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

/** Ends the running steps of a turn: as done if they changed the memory, otherwise as failed. */
export async function endSteps(
  trx: Transaction<Tables>,
  { turnId, sessionId }: StepTurn,
): Promise<void> {
  await trx
    .updateTable('agent_steps')
    .set({
      status: sql<string>`case when changes is null then 'failed' else 'done' end`,
      finished_at: sql<Date>`clock_timestamp()`,
    })
    // The index begins with the session ID, so a condition on the turn alone could not use it.
    .where('session_id', '=', sessionId)
    .where('turn_id', '=', turnId)
    .where('status', '=', 'running')
    .execute();
}

/** A step that changed the user's memory, with the name of its tool. */
type MemoryStep = { id: string; tool: string; title: string; changes: MemoryChange[] };

/** Returns the steps of a turn that changed the user's memory and were not undone, oldest first. */
export async function findMemorySteps(
  db: Kysely<Tables>,
  { turnId, sessionId }: StepTurn,
): Promise<MemoryStep[]> {
  const steps = await db
    .selectFrom('agent_steps')
    .select(['id', 'title', 'changes', sql<string>`detail::jsonb ->> 'tool'`.as('tool')])
    .where('session_id', '=', sessionId)
    .where('turn_id', '=', turnId)
    .where('changes', 'is not', null)
    .where('undone_at', 'is', null)
    .orderBy('position')
    .execute();
  // The origin of a fact is internal: only an undo needs it.
  return steps.map((step) => ({
    ...step,
    changes: (step.changes as RecordedChange[]).map(({ origin: _origin, ...change }) => change),
  }));
}

/**
 * Reverts all changes that a step made to the user's memory, or none if a fact has changed since.
 * @throws ProblemError `nothing_to_undo`, or `memory_full` if the restored facts exceed the limit.
 */
export function undoStep(
  db: Kysely<Tables>,
  { userId, sessionId, stepId }: { userId: string; sessionId: string; stepId: string },
): Promise<void> {
  return db.transaction().execute(async (trx) => {
    await lockMemory(trx, userId);
    const step = await trx
      .selectFrom('agent_steps')
      .select('changes')
      .where('id', '=', stepId)
      .where('session_id', '=', sessionId)
      .where('undone_at', 'is', null)
      .forUpdate()
      .executeTakeFirst();
    const changes = (step?.changes ?? []) as RecordedChange[];
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
