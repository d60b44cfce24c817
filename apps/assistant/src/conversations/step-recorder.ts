import type { ToolCall } from '@oselya/model';
import type { ToolCallInfo } from '@oselya/protocol';
import { type Kysely, sql, type Transaction } from 'kysely';
import { problem } from '../errors.ts';
import type { RecordedChange } from '../memory/facts.ts';
import { toStorableText, toStorableJson } from '../text.ts';
import type { Tables } from '../tables.ts';
import { type RunningTurn, storeEvents } from './event-log.ts';
import { lockSession } from './session-rows.ts';
import type { ToolResult } from './tools/tools.ts';

/** The recorder of a turn's steps. See {@link createTurnSteps}. */
export type TurnSteps = ReturnType<typeof createTurnSteps>;

/** Creates the recorder of a turn's steps, which also appends tool calls as events. */
export function createTurnSteps(db: Kysely<Tables>, turn: RunningTurn) {
  const tools = new Map<ToolCall, ToolCallInfo>();

  function findTool(call: ToolCall): ToolCallInfo {
    const tool = tools.get(call);
    if (tool === undefined) throw new Error('This tool call has not started');
    return tool;
  }

  async function startStep(kind: 'tool' | 'summary', title: string, detail: object) {
    const { id } = await db
      .insertInto('agent_steps')
      .values({
        session_id: turn.sessionId,
        turn_id: turn.turnId,
        kind,
        title,
        status: 'running',
        detail: toStorableJson(detail),
        finished_at: null,
      })
      .returning('id')
      .executeTakeFirstOrThrow();
    return id;
  }

  async function finishStep(id: string, status: 'done' | 'failed', detail: object): Promise<void> {
    await db
      .updateTable('agent_steps')
      .set({ status, detail: toStorableJson(detail), finished_at: sql<Date>`clock_timestamp()` })
      .where('id', '=', id)
      .execute();
  }

  return {
    async startTool(call: ToolCall, activity: string): Promise<void> {
      const title = toStorableText(activity);
      const step_id = await startStep('tool', title, { tool: call.name, input: call.input });
      const tool = { step_id, name: call.name, title };
      tools.set(call, tool);
      turn.append({ type: 'tool.started', tool: { ...tool, input: call.input } });
    },

    /**
     * Stores a memory change and the turn's new events in the transaction that makes the change, so that the reaper can
     * report the change if the process dies.
     * @throws ProblemError `session_not_found`; `no_turn_running` if another process ended the turn.
     */
    async storeChange(
      trx: Transaction<Tables>,
      call: ToolCall,
      change: RecordedChange,
    ): Promise<void> {
      const session = await lockSession(trx, { sessionId: turn.sessionId, scope: 'everything' });
      if (session === undefined) throw problem('session_not_found');
      const runningTurnIds = await storeEvents(trx, [turn]);
      if (runningTurnIds.size === 0) throw problem('no_turn_running');
      await trx
        .updateTable('agent_steps')
        .set({ changes: toStorableJson([change]) })
        .where('id', '=', findTool(call).step_id)
        .execute();
    },

    async finishTool(call: ToolCall, result: ToolResult): Promise<void> {
      const tool = findTool(call);
      const { status, summary, output, listingIds } = result;
      await finishStep(tool.step_id, status, { tool: call.name, input: call.input, output });
      const changes = [...result.changes];
      const listings = listingIds && { listing_ids: [...listingIds] };
      turn.append({
        type: 'tool.finished',
        tool: { ...tool, status, summary, changes, ...listings },
      });
    },

    /** Records a summary of earlier messages as a step. */
    async recordSummary(
      summarize: () => Promise<{ status: 'done' | 'failed'; detail: object }>,
    ): Promise<void> {
      const id = await startStep('summary', 'Summarizing earlier messages', {});
      const { status, detail } = await summarize();
      await finishStep(id, status, detail);
    },
  };
}
