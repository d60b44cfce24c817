import { type Logger, ProblemError } from '@oselya/kit';
import type { ToolCall, ToolDefinition } from '@oselya/model';
import { hasPermission, type User } from '../../access/permissions.ts';
import { CollectorError } from '../../collector/client.ts';
import type { MemoryChange } from '../../memory/facts.ts';
import { cutText, cutToBytes } from '../../text.ts';
import { getListing } from './get-listing.ts';
import { lookupEndpoint } from './lookup-endpoint.ts';
import { forgetFact, rememberFact } from './memory-facts.ts';
import { readFile } from './read-file.ts';
import { searchListings, similarListings } from './search-listings.ts';
import { type DefinedTool, type ToolContext, ToolError, type ToolServices } from './tool.ts';

/** All tools. Their order matters: the mock agent uses the first tool with a matching rule. Contract 3, Profiles. */
export const TOOLS: readonly DefinedTool[] = [
  rememberFact,
  forgetFact,
  similarListings,
  getListing,
  lookupEndpoint,
  searchListings,
  readFile,
];

/** Names of the tools that a profile may list. */
export const PROFILE_TOOLS: readonly string[] = TOOLS.filter(
  ({ isForFiles }) => isForFiles !== true,
).map(({ name }) => name);

/** Returns the tools of a profile. Adds the file tools if the session has files. */
export function selectTools(
  { tools }: { tools: readonly string[] },
  { hasFiles }: { hasFiles: boolean },
): DefinedTool[] {
  return TOOLS.filter(({ name, isForFiles = false }) =>
    isForFiles ? hasFiles : tools.includes(name),
  );
}

/** Returns the model definitions of tools. */
export function toDefinitions(tools: readonly DefinedTool[]): ToolDefinition[] {
  return tools.map(({ definition }) => definition);
}

/** The result of a tool call. */
export type ToolResult = {
  status: 'done' | 'failed';
  /** Output for the model. */
  output: string;
  /** Output for the model in later turns. */
  kept: string;
  /** Short result for the user. */
  summary: string;
  /** Whether the output contains third-party text. */
  isData: boolean;
  /** Changes in the user's memory. */
  changes: readonly MemoryChange[];
};

/** Time limit of a tool call in milliseconds, and maximum length of its output in bytes. */
export const toolLimits = { ms: 20_000, outputBytes: 16 * 1024 };

/** The context of a call. `hasReadData` is whether the model had read third-party text before the call. */
type CallContext = Pick<ToolContext, 'signal' | 'recordChange' | 'outputBytes'> & {
  hasReadData: boolean;
};

/** The tools that are available for one answer. */
export type ToolBox = {
  /** Returns the title of a call's step for the user. */
  title: (call: ToolCall) => string;
  run: (call: ToolCall, context: CallContext) => Promise<ToolResult>;
};

/**
 * Creates the tools of one answer. Each call is checked against the profile, the schema and the user's current
 * permissions, and has limits of time and output. Failures are reported to the model.
 * @param options.currentUser Resolves the current user. If it throws a ProblemError, the call fails with that reason.
 */
export function createToolBox({
  tools,
  services,
  sessionId,
  currentUser,
  log,
  limits = toolLimits,
}: {
  tools: readonly DefinedTool[];
  services: ToolServices;
  sessionId: string;
  currentUser: () => Promise<User>;
  log: Pick<Logger, 'warn'>;
  limits?: typeof toolLimits;
}): ToolBox {
  const byName = new Map(tools.map((tool) => [tool.name, tool]));

  async function run(call: ToolCall, context: CallContext): Promise<ToolResult> {
    const { hasReadData, signal, recordChange } = context;
    const tool = byName.get(call.name);
    if (tool === undefined)
      return createFailedResult(`there is no tool ${shorten(call.name)} here`);
    const input = withoutNulls(call.input);
    const faults = tool.findFaults(input);
    if (faults.length > 0)
      return createFailedResult(`its input is not valid: ${faults.join('; ')}`);
    if (tool.changesMemory === true && hasReadData) {
      return createFailedResult(
        'memory is not changed after listings were read in the same answer, whose texts might have asked for it; ask the person, and do it in the next answer',
      );
    }
    const timeout = AbortSignal.timeout(limits.ms);
    const ending = AbortSignal.any([signal, timeout]);
    try {
      const user = await unlessAborted(ending, currentUser());
      for (const permission of ['svc.tools.use', tool.permission] as const) {
        if (permission !== undefined && !hasPermission(user, permission)) {
          return createFailedResult(`it needs ${permission}`);
        }
      }
      const { outputBytes } = context;
      const own = { user, sessionId, signal: ending, recordChange, outputBytes };
      const output = await unlessAborted(ending, tool.run(input, { ...services, ...own }));
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
      if (timeout.aborted) return createFailedResult(`it took longer than ${limits.ms / 1000} s`);
      if (error instanceof ToolError || error instanceof CollectorError)
        return createFailedResult(error.message);
      if (error instanceof ProblemError)
        return createFailedResult(`${error.title}. ${error.detail}`);
      log.warn({ err: error, tool: call.name }, 'a tool failed');
      return createFailedResult('it failed; try again later');
    }
  }

  return {
    title: (call) => {
      const tool = byName.get(call.name);
      const input = withoutNulls(call.input);
      if (tool === undefined || tool.findFaults(input).length > 0) return shorten(call.name);
      return tool.title(input);
    },
    async run(call, context) {
      const outputBytes = Math.min(limits.outputBytes, context.outputBytes);
      const result = await run(call, { ...context, outputBytes });
      const { output, kept } = result;
      return {
        ...result,
        output: cutOutput(output, outputBytes),
        kept: cutOutput(kept, outputBytes),
      };
    },
  };
}

/** Removes keys with null values, since the schemas for models make optional keys nullable. */
function withoutNulls(input: unknown): unknown {
  if (typeof input !== 'object' || input === null || Array.isArray(input)) return input;
  return Object.fromEntries(Object.entries(input).filter(([, value]) => value !== null));
}

/** Resolves to the result of work, or throws the signal's reason once it is aborted. */
async function unlessAborted<Result>(signal: AbortSignal, work: Promise<Result>): Promise<Result> {
  const { promise: aborted, reject } = Promise.withResolvers<never>();
  const abort = () => reject(signal.reason);
  signal.addEventListener('abort', abort, { once: true });
  if (signal.aborted) abort();
  try {
    return await Promise.race([work, aborted]);
  } finally {
    signal.removeEventListener('abort', abort);
  }
}

/** Creates the result of a failed call. */
export function createFailedResult(reason: string): ToolResult {
  const output = JSON.stringify({ error: reason });
  return { status: 'failed', output, kept: output, summary: reason, isData: false, changes: [] };
}

/** Maximum length of an unknown tool name in messages, in characters. */
const MAX_NAME_LENGTH = 60;

const shorten = (name: string) => cutText(name, MAX_NAME_LENGTH);

/** Cuts a text to a number of bytes and appends a note about it. */
function cutOutput(text: string, bytes: number): string {
  const length = Buffer.byteLength(text);
  if (length <= bytes) return text;
  const note = `… (cut off: ${length} bytes)`;
  return cutToBytes(text, bytes - Buffer.byteLength(note)) + note;
}
