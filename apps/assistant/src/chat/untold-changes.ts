import type { Transaction } from 'kysely';
import { describeChange } from '../memory/facts.ts';
import { changedSteps } from '../planning/index.ts';
import type { Tables } from '../tables.ts';
import type { TurnEvent } from './events.ts';
import type { TurnKey } from './turn.ts';

/**
 * What tools of a turn changed in the user's memory, and nobody was told of: the process ended after the change, or
 * the database was away. It is told with the end of the turn, so that no fact comes about that was not shown.
 * @param told What has happened in the turn. That a tool began stands there, for each that changed something
 *   (`plan.ts`).
 */
export async function untoldChanges(
  trx: Transaction<Tables>,
  turn: Omit<TurnKey, 'position'>,
  told: readonly TurnEvent[],
): Promise<TurnEvent[]> {
  if (!told.some(({ type }) => type === 'tool.started')) return [];
  const known = new Set(
    told.flatMap((event) =>
      event.type === 'tool.finished' && event.tool.changes.length > 0 ? [event.tool.step_id] : [],
    ),
  );
  const steps = await changedSteps(trx, turn);
  return steps
    .filter(({ id }) => !known.has(id))
    .map(({ id, tool: name, title, changes }) => {
      const summary = changes.map(describeChange).join('; ');
      const tool = { step_id: id, name, title, status: 'done' as const, summary, changes };
      return { type: 'tool.finished', tool };
    });
}
