import { setTimeout as sleep } from 'node:timers/promises';
import { isDatabaseOutage } from '@oselya/db';
import type { ToolCall } from '@oselya/model';
import type { Kysely, Transaction } from 'kysely';
import { problem } from '../errors.ts';
import type { NotedChange } from '../memory/facts.ts';
import { storable, storableJson } from '../text.ts';
import type { Tables } from '../tables.ts';
import type { ToolResult } from '../tools/tools.ts';
import type { RunningTool } from './events.ts';
import { finishStep, type NewStep, noteChanges, startStep } from '../planning/index.ts';
import { lockSession } from '../sessions/index.ts';
import type { Turn } from './turn.ts';
import { storeEvents } from './turn-events.sql.ts';

/** How often a step is tried to be noted again while the database does not answer. */
const RETRY_MS = 500;

/**
 * The plan of a turn: what is done for an answer is noted before it begins and after, for admins; tools are told to
 * whoever listens, too. While the database does not answer nothing is begun. Specification 000, Ownership rules on
 * session endpoints.
 */
export function createPlan(
  { db, sender }: { db: Kysely<Tables>; sender: string },
  turn: Turn,
  signal: AbortSignal,
) {
  const { turnId: turn_id, sessionId: session_id } = turn;
  const steps = new Map<ToolCall, RunningTool>();

  async function start(step: Pick<NewStep, 'kind' | 'title' | 'detail'>): Promise<string> {
    const { id } = await outlast(() => startStep(db, { session_id, turn_id, ...step }), signal);
    return id;
  }

  function stepOf(call: ToolCall): RunningTool {
    const tool = steps.get(call);
    if (tool === undefined) throw new Error('A step that did not begin cannot go on');
    return tool;
  }

  // Also of one that was stopped meanwhile: what it did is shown, and can be undone.
  const finish = (id: string, end: Parameters<typeof finishStep>[2]) =>
    outlast(() => finishStep(db, id, end), signal);

  return {
    async startTool(call: ToolCall, name: string): Promise<void> {
      const title = storable(name);
      const detail = storableJson({ tool: call.name, input: call.input });
      const tool = {
        step_id: await start({ kind: 'tool', title, detail }),
        name: call.name,
        title,
      };
      steps.set(call, tool);
      turn.add({ type: 'tool.started', tool });
    },

    /**
     * Notes what a tool is about to change in the user's memory, in the transaction of the change, together with
     * what has been told until then: whatever ends the process, what comes after it tells of the change, and by a
     * number that nobody has seen. A turn that has been ended by another process changes nothing any more.
     * @throws ProblemError `session_not_found`, or `no_turn_running`.
     */
    async noteChange(trx: Transaction<Tables>, call: ToolCall, change: NotedChange): Promise<void> {
      const session = await lockSession(trx, { sessionId: session_id, reach: 'everything' });
      if (session === undefined) throw problem('session_not_found');
      const batch = { turnId: turn_id, sessionId: session_id, events: turn.unstored };
      const running = await storeEvents(trx, [batch], sender);
      if (running.length === 0) throw problem('no_turn_running');
      await noteChanges(trx, stepOf(call).step_id, [change]);
    },

    async finishTool(
      call: ToolCall,
      { status, summary, output, changes }: ToolResult,
    ): Promise<void> {
      const tool = stepOf(call);
      const detail = storableJson({ tool: call.name, input: call.input, output });
      await finish(tool.step_id, { status, detail });
      turn.add({ type: 'tool.finished', tool: { ...tool, status, summary, changes } });
    },

    /** Notes work that is not a tool's, with what it says came of it. */
    async during(
      step: { kind: 'summary'; title: string },
      work: () => Promise<{ status: 'done' | 'failed'; detail: object }>,
    ): Promise<void> {
      const id = await start({ ...step, detail: storableJson({}) });
      const { status, detail } = await work();
      await finish(id, { status, detail: storableJson(detail) });
    },
  };
}

/** Does something again until the database answers. */
async function outlast<Result>(work: () => Promise<Result>, signal: AbortSignal): Promise<Result> {
  for (;;) {
    try {
      return await work();
    } catch (error) {
      if (!isDatabaseOutage(error)) throw error;
      await sleep(RETRY_MS, undefined, { signal });
    }
  }
}
