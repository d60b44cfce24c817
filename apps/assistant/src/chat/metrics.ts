import { Counter, Histogram, type Registry } from 'prom-client';
import { type ToolResult, TOOLS } from '../tools/tools.ts';
import type { TurnStatus } from '../tables.ts';

const SECONDS = [0.25, 0.5, 1, 2.5, 5, 10, 20, 30, 60, 120, 300, 600];

/** How a turn ended; `lost` where another process took it for dead and ended it, or its end could not be stored. */
export type TurnOutcome = Exclude<TurnStatus, 'running'> | 'lost';

/** Counts turns and what was done in them. The model's tokens are counted where it is asked. */
export type ChatMetrics = ReturnType<typeof createChatMetrics>;

const KNOWN: ReadonlySet<string> = new Set(TOOLS.map(({ name }) => name));

/** The metrics of turns, in a registry. See {@link ChatMetrics}. */
export function createChatMetrics(registry: Registry) {
  const registers = [registry];
  const turns = new Counter({
    name: 'assistant_turns_total',
    help: 'Answers that ended, by how: "completed", "cancelled", "failed", "cut" with its process, or "lost" to another process.',
    labelNames: ['outcome'],
    registers,
  });
  const duration = new Histogram({
    name: 'assistant_turn_duration_seconds',
    help: 'Time from a message to the end of its answer, of answers that ended in the process that wrote them.',
    labelNames: ['outcome'],
    buckets: SECONDS,
    registers,
  });
  const tools = new Counter({
    name: 'assistant_tool_calls_total',
    help: 'Tools that the model asked for; the tool is "unknown" where there is none of that name.',
    labelNames: ['tool', 'outcome'],
    registers,
  });
  const summaries = new Counter({
    name: 'assistant_summaries_total',
    help: 'Attempts to summarize the earlier messages of a session before an answer.',
    labelNames: ['outcome'],
    registers,
  });
  return {
    /** @param durationMs Of a turn that ended in the process that ran it. */
    countTurn(outcome: TurnOutcome, durationMs?: number): void {
      turns.inc({ outcome });
      if (durationMs !== undefined) duration.observe({ outcome }, durationMs / 1000);
    },
    countTool(name: string, outcome: ToolResult['status']): void {
      tools.inc({ tool: KNOWN.has(name) ? name : 'unknown', outcome });
    },
    countSummary(outcome: 'done' | 'failed'): void {
      summaries.inc({ outcome });
    },
  };
}
