import { type Logger, ProblemError } from '@oselya/kit';
import type { ToolCall } from '@oselya/model';
import { Compile } from 'typebox/compile';
import { hasPermission } from '../access/permissions.ts';
import type { User } from '../access/user.ts';
import { CollectorError } from '../collector/client.ts';
import { type MemoryChange, type Tool, ToolError } from './tool.ts';

/** What came of a call of a tool. */
export type ToolResult = {
  status: 'done' | 'failed';
  /** For the model. */
  output: string;
  /** For people. */
  summary: string;
  /** Whether the output was written by strangers. */
  isData: boolean;
  effects: readonly MemoryChange[];
};

/** How long a tool may take, and how much it may tell the model. */
export const toolLimits = { ms: 20_000, outputBytes: 16 * 1024 };

/** The tools of one answer. */
export type ToolBox = {
  /** What a call does, for people; its name where it cannot be said. */
  title: (call: ToolCall) => string;
  run: (
    call: ToolCall,
    options: { hasReadData: boolean; signal: AbortSignal },
  ) => Promise<ToolResult>;
};

/**
 * The tools of a profile for one user's answer. What a call asks for is held against the profile, the user's
 * permission of this moment, and the tool's schema, whatever the model was told or has read; each call is bounded
 * in time and output, and its failure is told to the model. Contract 3, Profiles.
 * @param currentUser Gives the user as of now. Throws as `LiveUser.current` does.
 */
export function createToolBox({
  tools,
  sessionId,
  currentUser,
  log,
  limits = toolLimits,
}: {
  tools: readonly Tool[];
  sessionId: string;
  currentUser: () => Promise<User>;
  log: Pick<Logger, 'warn'>;
  limits?: typeof toolLimits;
}): ToolBox {
  const byName = new Map<string, Checked>(tools.map((tool) => [tool.name, checked(tool)]));

  async function run(
    call: ToolCall,
    { hasReadData, signal }: { hasReadData: boolean; signal: AbortSignal },
  ): Promise<ToolResult> {
    const found = byName.get(call.name);
    if (found === undefined) return refused(`there is no tool ${shorten(call.name)} here`);
    const { tool, faultsOf } = found;
    const faults = faultsOf(call.input);
    if (faults.length > 0) return refused(`its input is not valid: ${faults.join('; ')}`);
    if (tool.changesMemory && hasReadData) {
      return refused(
        'memory is not changed after listings were read in the same answer, whose texts might have asked for it; ask the person, and do it in the next answer',
      );
    }
    const late = AbortSignal.timeout(limits.ms);
    try {
      const user = await currentUser();
      if (!hasPermission(user, 'svc.tools.use')) return refused('it needs svc.tools.use');
      const {
        data,
        summary,
        changes = [],
      } = await tool.run(call.input, {
        user,
        sessionId,
        signal: AbortSignal.any([signal, late]),
      });
      return {
        status: 'done',
        output: bounded(JSON.stringify(data), limits.outputBytes),
        summary,
        isData: tool.isData,
        effects: changes,
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
      const found = byName.get(call.name);
      if (found === undefined || found.faultsOf(call.input).length > 0) return shorten(call.name);
      return found.tool.title(call.input);
    },
    run,
  };
}

type Checked = { tool: Tool; faultsOf: (input: unknown) => string[] };

function checked(tool: Tool): Checked {
  const validator = Compile(tool.input);
  return {
    tool,
    faultsOf: (input: unknown): string[] =>
      validator
        .Errors(input)
        .slice(0, 5)
        .map(({ instancePath, message }) => `${instancePath || 'it'} ${message}`),
  };
}

function refused(reason: string): ToolResult {
  return {
    status: 'failed',
    output: JSON.stringify({ error: reason }),
    summary: reason,
    isData: false,
    effects: [],
  };
}

/** What a longer name is cut to, which a model made up. */
const SHOWN_LENGTH = 60;

const shorten = (name: string) => name.slice(0, SHOWN_LENGTH);

/** A text of at most so many bytes, which says that it was cut. */
function bounded(text: string, bytes: number): string {
  const whole = Buffer.from(text);
  if (whole.length <= bytes) return text;
  return `${new TextDecoder().decode(whole.subarray(0, bytes))}… (cut off: ${whole.length} bytes)`;
}
