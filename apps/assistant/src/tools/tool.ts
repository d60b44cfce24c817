import { defineModelSchema, type ToolDefinition } from '@oselya/model';
import type { Static, TSchema } from 'typebox';
import { Compile } from 'typebox/compile';
import type { Permission, User } from '../access/permissions.ts';
import type { MemoryChange, NoteChange } from '../memory/facts.ts';

/** The tools that a profile may list. Contract 3, Profiles. */
export const PROFILE_TOOLS = [
  'search_listings',
  'similar_listings',
  'get_listing',
  'remember_fact',
  'forget_fact',
  'lookup_endpoint',
] as const;

/** The names of all tools: those that profiles name, and that which every profile has. */
export const TOOL_NAMES = [...PROFILE_TOOLS, 'read_file'] as const;

/** See {@link TOOL_NAMES}. */
export type ToolName = (typeof TOOL_NAMES)[number];

/** For whom a tool is run, and what for. */
export type ToolContext = {
  /** As the provider described them at most 30 s ago. */
  user: User;
  sessionId: string;
  signal: AbortSignal;
  /** Notes what it changes, for people to see and undo whatever becomes of the answer. */
  noteChange: NoteChange;
  /** How much it may tell the model, as JSON; what is longer is cut. */
  outputBytes: number;
};

/** What a tool gives. */
export type ToolOutput = {
  /** For the model, as JSON. */
  data: unknown;
  /**
   * What the answers after this one are told of it, where that is less: nothing that strangers wrote, since what
   * they wrote would order things one answer later.
   */
  kept?: unknown;
  /** For people: what came of it, in a few words. */
  summary: string;
  /** What it changed, for people to see and undo. */
  changes?: readonly MemoryChange[];
};

/**
 * Something that an agent can do.
 * @property isData Whether what it gives was written by strangers: what stands there orders nobody anything.
 * @property changesMemory Whether it writes: it is not run once an answer has read what strangers wrote, who might
 *   have asked for it. It minds the signal by itself, as only it knows whether something has been changed by then.
 */
export type Tool<Input extends TSchema = TSchema> = {
  name: ToolName;
  /** For the model: what it does and when to use it. */
  description: string;
  input: Input;
  isData: boolean;
  changesMemory: boolean;
  /** What it needs beside `svc.tools.use`. */
  permission?: Permission;
  /** For people: what is being done. */
  title: (input: Static<Input>) => string;
  /** @throws ProblemError, or ToolError with a message for the model and the user. */
  run: (input: Static<Input>, context: ToolContext) => Promise<ToolOutput>;
};

/** A tool that has been defined, with the check of its input. */
export type DefinedTool = Tool & {
  /** The tool as the model is sent it. */
  definition: ToolDefinition;
  /** What is wrong with an input, in words; nothing where it is valid. */
  faultsOf: (input: unknown) => string[];
};

/** How many faults of an input are told. */
const MOST_FAULTS = 5;

/** Keeps a tool's input and its functions of one type, and compiles the check of its input. */
export function defineTool<Input extends TSchema>(tool: Tool<Input>): DefinedTool {
  const validator = Compile(tool.input);
  // What is run has been checked against the schema.
  const checked = tool as unknown as Tool;
  return {
    ...checked,
    definition: {
      name: tool.name,
      description: tool.description,
      input: defineModelSchema(tool.name, tool.input),
    },
    faultsOf: (input: unknown): string[] =>
      validator
        .Errors(input)
        .slice(0, MOST_FAULTS)
        .map(({ instancePath, message }) => `${instancePath || 'it'} ${message}`),
  };
}

/** A failure of a tool, in words for the model and the user. */
export class ToolError extends Error {
  override readonly name = 'ToolError';
}
