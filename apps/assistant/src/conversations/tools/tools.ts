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

/** All tools. The mock agent uses the first whose rule applies. Contract 3, Profiles. */
export const TOOLS: readonly DefinedTool[] = [
  rememberFact,
  forgetFact,
  similarListings,
  getListing,
  lookupEndpoint,
  searchListings,
  readFile,
];

/** The names of the tools that a profile may list. */
export const PROFILE_TOOLS: readonly string[] = TOOLS.filter(
  ({ isForFiles }) => isForFiles !== true,
).map(({ name }) => name);

/** Returns the tools of a profile, with those for files if the session has some. */
export function selectTools(
  { tools }: { tools: readonly string[] },
  { hasFiles }: { hasFiles: boolean },
): DefinedTool[] {
  return TOOLS.filter(({ name, isForFiles = false }) =>
    isForFiles ? hasFiles : tools.includes(name),
  );
}

/** Returns the definitions of tools for the model. */
export function toDefinitions(tools: readonly DefinedTool[]): ToolDefinition[] {
  return tools.map(({ definition }) => definition);
}

/** The result of a call of a tool. */
export type ToolResult = {
  status: 'done' | 'failed';
  /** For the model. */
  output: string;
  /** For the model in later answers. */
  kept: string;
  /** For people. */
  summary: string;
  /** Whether strangers wrote the output. */
  isData: boolean;
  /** The changes of the user's memory. */
  changes: readonly MemoryChange[];
};

/** Time limit of a tool in milliseconds, and maximum output in bytes. */
export const toolLimits = { ms: 20_000, outputBytes: 16 * 1024 };

/** `hasReadData` says whether the model had read strangers' texts when it made the call. */
type CallContext = Pick<ToolContext, 'signal' | 'recordChange' | 'outputBytes'> & {
  hasReadData: boolean;
};

/** The tools of one answer. */
export type ToolBox = {
  /** Returns the title of a call's step, for people. */
  title: (call: ToolCall) => string;
  run: (call: ToolCall, context: CallContext) => Promise<ToolResult>;
};

/**
 * Creates the tools of one answer. Each call is checked against the profile, the schema and the user's current
 * permissions, whatever the model has read, and is limited in time and output. Its failure is reported to the model.
 * @param options.currentUser Resolves the user now; a problem that it throws is why the tool does not run.
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

/** Removes null keys: optional keys are nullable in the schemas that models get. */
function withoutNulls(input: unknown): unknown {
  if (typeof input !== 'object' || input === null || Array.isArray(input)) return input;
  return Object.fromEntries(Object.entries(input).filter(([, value]) => value !== null));
}

/** Returns the result of work that may ignore the signal, or throws the signal's reason. */
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

/** Returns the result of a call that failed for a reason. */
export function createFailedResult(reason: string): ToolResult {
  const output = JSON.stringify({ error: reason });
  return { status: 'failed', output, kept: output, summary: reason, isData: false, changes: [] };
}

/** Maximum length of a tool's name that a model invented. */
const MAX_NAME_LENGTH = 60;

const shorten = (name: string) => cutText(name, MAX_NAME_LENGTH);

/** Cuts a text to a number of bytes, with a note that says so. */
function cutOutput(text: string, bytes: number): string {
  const length = Buffer.byteLength(text);
  if (length <= bytes) return text;
  const note = `… (cut off: ${length} bytes)`;
  return cutToBytes(text, bytes - Buffer.byteLength(note)) + note;
}
