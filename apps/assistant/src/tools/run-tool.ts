import { type Logger, ProblemError } from '@oselya/kit';
import type { ToolCall } from '@oselya/model';
import { hasPermission, type User } from '../access/permissions.ts';
import { CollectorError } from '../collector/client.ts';
import { cutText, cutToBytes } from '../text.ts';
import type { MemoryChange } from '../memory/facts.ts';
import { type DefinedTool, type ToolContext, ToolError } from './tool.ts';

/** What came of a call of a tool. */
export type ToolResult = {
  status: 'done' | 'failed';
  /** For the model. */
  output: string;
  /** For the model in the answers after this one. */
  kept: string;
  /** For people. */
  summary: string;
  /** Whether the output was written by strangers. */
  isData: boolean;
  /** What it changed in the user's memory. */
  changes: readonly MemoryChange[];
};

/** How long a tool may take, and how much it may tell the model, with the note that it was cut. */
export const toolLimits = { ms: 20_000, outputBytes: 16 * 1024 };

/**
 * For what a call is made.
 * @property hasReadData Whether the model had read what strangers wrote when it asked for it.
 * @property outputBytes How much the model can still be told, where that is less than a tool may tell.
 */
type CallContext = Pick<ToolContext, 'signal' | 'noteChange' | 'outputBytes'> & {
  hasReadData: boolean;
};

/** The tools of one answer. */
export type ToolBox = {
  /** What a call does, for people; its name where it cannot be said. */
  title: (call: ToolCall) => string;
  run: (call: ToolCall, context: CallContext) => Promise<ToolResult>;
};

/**
 * The tools of a profile for one user's answer. What a call asks for is held against the profile, the user's
 * permission of this moment, and the tool's schema, whatever the model was told or has read; each call is bounded
 * in time and output, and its failure is told to the model. Contract 3, Profiles.
 * @param currentUser Gives the user as of now; what it throws as a problem is why the tool is not run.
 */
export function createToolBox({
  tools,
  sessionId,
  currentUser,
  log,
  limits = toolLimits,
}: {
  tools: readonly DefinedTool[];
  sessionId: string;
  currentUser: () => Promise<User>;
  log: Pick<Logger, 'warn'>;
  limits?: typeof toolLimits;
}): ToolBox {
  const byName = new Map<string, DefinedTool>(tools.map((tool) => [tool.name, tool]));

  async function run(call: ToolCall, context: CallContext): Promise<ToolResult> {
    const outputBytes = Math.min(limits.outputBytes, context.outputBytes);
    const result = await runUnbounded(call, { ...context, outputBytes });
    const { output, kept } = result;
    return { ...result, output: bounded(output, outputBytes), kept: bounded(kept, outputBytes) };
  }

  async function runUnbounded(
    call: ToolCall,
    { hasReadData, signal, ...told }: CallContext,
  ): Promise<ToolResult> {
    const tool = byName.get(call.name);
    if (tool === undefined) return refused(`there is no tool ${shorten(call.name)} here`);
    const input = withoutNulls(call.input);
    const faults = tool.faultsOf(input);
    if (faults.length > 0) return refused(`its input is not valid: ${faults.join('; ')}`);
    if (tool.changesMemory && hasReadData) {
      return refused(
        'memory is not changed after listings were read in the same answer, whose texts might have asked for it; ask the person, and do it in the next answer',
      );
    }
    const late = AbortSignal.timeout(limits.ms);
    const ending = AbortSignal.any([signal, late]);
    try {
      const user = await unlessAborted(ending, currentUser());
      for (const permission of ['svc.tools.use', tool.permission] as const) {
        if (permission !== undefined && !hasPermission(user, permission)) {
          return refused(`it needs ${permission}`);
        }
      }
      const running = tool.run(input, { user, sessionId, signal: ending, ...told });
      const output = await (tool.changesMemory ? running : unlessAborted(ending, running));
      const { data, kept = data, summary, changes = [] } = output;
      return {
        status: 'done',
        output: JSON.stringify(data),
        kept: JSON.stringify(kept),
        summary,
        isData: tool.isData,
        changes,
      };
    } catch (error) {
      signal.throwIfAborted();
      if (late.aborted) return refused(`it took longer than ${limits.ms / 1000} s`);
      if (error instanceof ToolError || error instanceof CollectorError) {
        return refused(error.message);
      }
      if (error instanceof ProblemError) return refused(`${error.title}. ${error.detail}`);
      log.warn({ err: error, tool: call.name }, 'a tool failed');
      return refused('it failed; try again later');
    }
  }

  return {
    title: (call) => {
      const tool = byName.get(call.name);
      const input = withoutNulls(call.input);
      if (tool === undefined || tool.faultsOf(input).length > 0) return shorten(call.name);
      return tool.title(input);
    },
    run,
  };
}

/** An input without its null keys: optional keys are nullable in the schema that models are sent. */
function withoutNulls(input: unknown): unknown {
  if (typeof input !== 'object' || input === null || Array.isArray(input)) return input;
  return Object.fromEntries(Object.entries(input).filter(([, value]) => value !== null));
}

/** What comes of work, for as long as a signal lets it be waited for: some work minds no signal. */
async function unlessAborted<Result>(signal: AbortSignal, work: Promise<Result>): Promise<Result> {
  const { promise: aborted, reject } = Promise.withResolvers<never>();
  const giveUp = () => reject(signal.reason);
  signal.addEventListener('abort', giveUp, { once: true });
  if (signal.aborted) giveUp();
  try {
    return await Promise.race([work, aborted]);
  } finally {
    signal.removeEventListener('abort', giveUp);
  }
}

/** A call that came to nothing, and why. */
export function refused(reason: string): ToolResult {
  const output = JSON.stringify({ error: reason });
  return { status: 'failed', output, kept: output, summary: reason, isData: false, changes: [] };
}

/** What a longer name is cut to, which a model made up. */
const SHOWN_LENGTH = 60;

const shorten = (name: string) => cutText(name, SHOWN_LENGTH);

/** A text of at most so many bytes, which says that it was cut. */
function bounded(text: string, bytes: number): string {
  const whole = Buffer.byteLength(text);
  if (whole <= bytes) return text;
  const note = `… (cut off: ${whole} bytes)`;
  return cutToBytes(text, bytes - Buffer.byteLength(note)) + note;
}
