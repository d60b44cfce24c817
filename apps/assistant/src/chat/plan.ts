import { setTimeout as sleep } from 'node:timers/promises';
import { isDatabaseOutage } from '@oselya/db';
import type { ToolCall } from '@oselya/model';
import type { Kysely } from 'kysely';
import { finishStep, startStep } from './steps.sql.ts';
import { storable, storableJson } from '../storable-json.ts';
import type { Tables } from '../tables.ts';
import type { ToolBox, ToolResult } from '../tools/run-tool.ts';
import type { Turn } from './turn.ts';

/** How often a step is tried to be noted again while the database does not answer. */
const RETRY_MS = 500;

/**
 * The plan of a turn: every tool that is run is noted before it runs and after, for admins, and told to
 * whoever listens. While the database does not answer no tool is run. Specification 000, Ownership rules on
 * session endpoints.
 */
export function createPlan(
  { db }: { db: Kysely<Tables> },
  turn: Turn,
  { box, signal }: { box: Pick<ToolBox, 'title'>; signal: AbortSignal },
) {
  const { turnId: turn_id, sessionId: session_id } = turn;
  const steps = new Map<ToolCall, { step_id: string; name: string; title: string }>();

  return {
    async start(call: ToolCall): Promise<void> {
      const title = storable(box.title(call));
      const detail = storableJson({ tool: call.name, input: call.input });
      const step = { session_id, turn_id, kind: 'tool' as const, title, detail };
      const { id } = await outlast(() => startStep(db, step), signal);
      const tool = { step_id: id, name: call.name, title };
      steps.set(call, tool);
      turn.add({ type: 'tool.started', tool });
    },

    async finish(call: ToolCall, { status, summary, output, changes }: ToolResult): Promise<void> {
      const tool = steps.get(call);
      if (tool === undefined) throw new Error('A step that did not begin cannot end');
      const detail = storableJson({ tool: call.name, input: call.input, output });
      const end = { status, detail, changes };
      // Also of one that was stopped meanwhile: what it did is shown, and can be undone.
      await outlast(() => finishStep(db, tool.step_id, end), signal);
      turn.add({ type: 'tool.finished', tool: { ...tool, status, summary, changes } });
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
