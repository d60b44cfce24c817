import { closeStatuses } from '@oselya/protocol';
import { Counter, Gauge, Histogram, type Registry } from 'prom-client';
import type { TurnStatus } from '../tables.ts';
import { type ToolResult, TOOLS } from './tools/tools.ts';

const TURN_BUCKETS_SECONDS = [0.25, 0.5, 1, 2.5, 5, 10, 20, 30, 60, 120, 300, 600];
const KNOWN_TOOL_NAMES: ReadonlySet<string> = new Set(TOOLS.map(({ name }) => name));

/** Close codes with a separate label value. All others share one, because clients can send any code. */
const KNOWN_CLOSE_CODES: ReadonlySet<number> = new Set(
  [1000, 1001, 1002, 1005, 1006, 1007, 1009].concat(
    Object.values(closeStatuses).map(({ code }) => code),
  ),
);

export type ChatMetrics = ReturnType<typeof createChatMetrics>;

/** Creates and registers the metrics of turns, tool calls and summaries. */
export function createChatMetrics(registry: Registry) {
  const registers = [registry];
  const turns = new Counter({
    name: 'assistant_turns_total',
    help: 'Ended turns by outcome: "completed", "cancelled", "failed", "cut" with its process, or "lost" to another process.',
    labelNames: ['outcome'],
    registers,
  });
  const duration = new Histogram({
    name: 'assistant_turn_duration_seconds',
    help: 'Time from a message to the end of its answer, for turns that ended in the process that began them.',
    labelNames: ['outcome'],
    buckets: TURN_BUCKETS_SECONDS,
    registers,
  });
  const toolCalls = new Counter({
    name: 'assistant_tool_calls_total',
    help: 'Tool calls of the model; the tool is "unknown" if no tool has that name.',
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
    /** Counts an ended turn: as `lost` if another process or a deletion ended it, or if its end could not be stored. */
    countTurn(outcome: Exclude<TurnStatus, 'running'> | 'lost', durationMs?: number): void {
      turns.inc({ outcome });
      if (durationMs !== undefined) duration.observe({ outcome }, durationMs / 1000);
    },
    countTool(name: string, outcome: ToolResult['status']): void {
      toolCalls.inc({ tool: KNOWN_TOOL_NAMES.has(name) ? name : 'unknown', outcome });
    },
    countSummary(outcome: 'done' | 'failed'): void {
      summaries.inc({ outcome });
    },
  };
}

export type SocketMetrics = ReturnType<typeof createSocketMetrics>;

/** Creates and registers the socket metrics. */
export function createSocketMetrics(registry: Registry) {
  const registers = [registry];
  const sockets = new Gauge({
    name: 'assistant_sockets',
    help: 'Open sockets, by whether they have a session cookie.',
    labelNames: ['state'],
    registers,
  });
  const messages = new Counter({
    name: 'assistant_socket_messages_total',
    help: 'Messages of clients by type, and by outcome: "ok" or the error code.',
    labelNames: ['type', 'outcome'],
    registers,
  });
  const closes = new Counter({
    name: 'assistant_socket_closes_total',
    help: 'Closed sockets, by close code.',
    labelNames: ['code'],
    registers,
  });
  for (const state of ['anonymous', 'signed_in']) sockets.set({ state }, 0);

  return {
    countOpened: (state: 'anonymous' | 'signed_in') => sockets.inc({ state }),
    countClosed(state: 'anonymous' | 'signed_in', code: number): void {
      sockets.dec({ state });
      closes.inc({ code: KNOWN_CLOSE_CODES.has(code) ? String(code) : 'other' });
    },
    /** Counts a message. `type` must be a known type or `unknown`, so that clients cannot create label values. */
    countMessage: (type: string, outcome: string) => messages.inc({ type, outcome }),
  };
}
