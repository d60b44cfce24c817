import { type Logger, ProblemError } from '@oselya/kit';
import type { ToolCall, ToolDefinition } from '@oselya/model';
import type { MemoryChange } from '@oselya/protocol';
import { hasPermission, type User } from '../../access/permissions.ts';
import { CollectorError } from '../../collector/client.ts';
import { cutText, cutToBytes } from '../../text.ts';
import { getListing } from './get-listing.ts';
import { lookupEndpoint } from './lookup-endpoint.ts';
import { forgetFact, rememberFact } from './memory-facts.ts';
import { readFile } from './read-file.ts';
import { searchListings, similarListings } from './search-listings.ts';
import { type DefinedTool, type ToolContext, ToolError, type ToolServices } from './tool.ts';

/**
 * All tools. The mock agent uses the first tool with a matching rule. To add a tool, list it here, and by name in the
 * profiles that should have it. Contract 3, Profiles.
 */
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
  ({ isFileTool }) => isFileTool !== true,
).map(({ name }) => name);

/** Returns the tools of a profile. Adds the file tools if the session has files. */
export function selectTools(
  { tools }: { tools: readonly string[] },
  { hasFiles }: { hasFiles: boolean },
): DefinedTool[] {
  return TOOLS.filter(({ name, isFileTool = false }) =>
    isFileTool ? hasFiles : tools.includes(name),
  );
}

/** Returns the definitions of tools for a model request. */
export const toDefinitions = (tools: readonly DefinedTool[]): ToolDefinition[] =>
  tools.map(({ definition }) => definition);

/** A tool call result: a {@link ToolOutput} with its data as JSON text for the model. */
export type ToolResult = {
  status: 'done' | 'failed';
  output: string;
  laterOutput: string;
  summary: string;
  hasThirdPartyText: boolean;
  changes: readonly MemoryChange[];
  listingIds?: readonly number[];
};

/** Maximum duration of a tool call and maximum length of its output. */
const DEFAULT_TOOL_LIMITS = { ms: 20_000, outputBytes: 16 * 1024 };

/** The context of a call. `hasReadThirdPartyText`: whether the model had read third-party text before the call. */
type CallContext = Pick<ToolContext, 'signal' | 'recordChange' | 'outputBytes'> & {
  hasReadThirdPartyText: boolean;
};

/**
 * Creates the tools for one answer. Each call is checked against the profile, the schema and the user's current
 * permissions, and its time and output are limited. The model gets failures as output.
 * @param options.currentUser Resolves the current user. If it throws a ProblemError, the call fails with that reason.
 */
export function createToolBox({
  tools,
  services,
  sessionId,
  currentUser,
  log,
  limits = DEFAULT_TOOL_LIMITS,
}: {
  tools: readonly DefinedTool[];
  services: ToolServices;
  sessionId: string;
  currentUser: () => Promise<User>;
  log: Pick<Logger, 'warn'>;
  limits?: typeof DEFAULT_TOOL_LIMITS;
}) {
  const toolsByName = new Map(tools.map((tool) => [tool.name, tool]));

  async function run(call: ToolCall, context: CallContext): Promise<ToolResult> {
    const { hasReadThirdPartyText, signal, recordChange, outputBytes } = context;
    const tool = toolsByName.get(call.name);
    if (tool === undefined) {
      return createFailedResult(`there is no tool ${truncateName(call.name)} here`);
    }
    const input = removeNulls(call.input);
    const errors = tool.validate(input);
    if (errors.length > 0) {
      return createFailedResult(`its input is not valid: ${errors.join('; ')}`);
    }
    if (tool.canChangeMemory === true && hasReadThirdPartyText) {
      return createFailedResult(
        'memory is not changed after listings were read in the same answer, whose texts might have asked for it; ask the person, and do it in the next answer',
      );
    }
    const timeoutSignal = AbortSignal.timeout(limits.ms);
    const stopSignal = AbortSignal.any([signal, timeoutSignal]);
    try {
      const user = await waitUnlessAborted(stopSignal, currentUser());
      for (const permission of ['svc.tools.use', tool.permission] as const) {
        if (permission !== undefined && !hasPermission(user, permission)) {
          return createFailedResult(`it needs ${permission}`);
        }
      }
      const toolContext = { user, sessionId, signal: stopSignal, recordChange, outputBytes };
      const toolRun = tool.run(input, { ...services, ...toolContext });
      const { data, laterData = data, ...result } = await waitUnlessAborted(stopSignal, toolRun);
      const { hasThirdPartyText } = tool;
      const jsonOutputs = { output: JSON.stringify(data), laterOutput: JSON.stringify(laterData) };
      return { status: 'done', changes: [], ...result, ...jsonOutputs, hasThirdPartyText };
    } catch (error) {
      signal.throwIfAborted();
      if (timeoutSignal.aborted)
        return createFailedResult(`it took longer than ${limits.ms / 1000} s`);
      if (error instanceof ToolError || error instanceof CollectorError) {
        return createFailedResult(error.message);
      }
      if (error instanceof ProblemError) {
        return createFailedResult(`${error.title}. ${error.detail}`);
      }
      log.warn({ err: error, tool: call.name }, 'a tool failed');
      return createFailedResult('it failed; try again later');
    }
  }

  return {
    /** Returns the user-facing title of a call's step. */
    getTitle(call: ToolCall): string {
      const tool = toolsByName.get(call.name);
      const input = removeNulls(call.input);
      if (tool === undefined || tool.validate(input).length > 0) return truncateName(call.name);
      return tool.title(input);
    },
    async run(call: ToolCall, context: CallContext): Promise<ToolResult> {
      const outputBytes = Math.min(limits.outputBytes, context.outputBytes);
      const result = await run(call, { ...context, outputBytes });
      const output = truncateOutput(result.output, outputBytes);
      return { ...result, output, laterOutput: truncateOutput(result.laterOutput, outputBytes) };
    },
  };
}

/** Removes the top-level keys with null values. Model schemas use null for an omitted key. */
function removeNulls(input: unknown): unknown {
  if (typeof input !== 'object' || input === null || Array.isArray(input)) return input;
  return Object.fromEntries(Object.entries(input).filter(([, value]) => value !== null));
}

/** Waits for work. Throws the signal's reason if the signal is aborted first. */
async function waitUnlessAborted<Result>(
  signal: AbortSignal,
  work: Promise<Result>,
): Promise<Result> {
  const { promise: abortPromise, reject } = Promise.withResolvers<never>();
  const onAbort = () => reject(signal.reason);
  signal.addEventListener('abort', onAbort, { once: true });
  if (signal.aborted) onAbort();
  try {
    return await Promise.race([work, abortPromise]);
  } finally {
    signal.removeEventListener('abort', onAbort);
  }
}

/** Creates the result of a call that failed. The model gets the reason as output. */
export function createFailedResult(reason: string): ToolResult {
  const output = JSON.stringify({ error: reason });
  return {
    status: 'failed',
    output,
    laterOutput: output,
    summary: reason,
    hasThirdPartyText: false,
    changes: [],
  };
}

const MAX_UNKNOWN_NAME_LENGTH = 60;

const truncateName = (name: string) => cutText(name, MAX_UNKNOWN_NAME_LENGTH);

/** Truncates text to a number of bytes, including a note that it is truncated. */
function truncateOutput(text: string, bytes: number): string {
  const length = Buffer.byteLength(text);
  if (length <= bytes) return text;
  const note = `… (cut off: ${length} bytes)`;
  return cutToBytes(text, bytes - Buffer.byteLength(note)) + note;
}
