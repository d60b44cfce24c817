import {
  type ChatMessage,
  defineModelSchema,
  type SearchCriteria,
  type ToolDefinition,
} from '@oselya/model';
import type { Static, TSchema } from 'typebox';
import { Compile } from 'typebox/compile';
import type { Permission, User } from '../../access/permissions.ts';
import type { Collector } from '../../collector/client.ts';
import type { Files } from '../../files/files.ts';
import type { MemoryChange, RecordChange } from '../../memory/facts.ts';
import type { Memory } from '../../memory/memory.ts';

/** The dependencies of tools. */
export type ToolServices = {
  collector: Collector;
  memory: Memory;
  files: Files;
  /** INVENTORY_FILE */
  inventoryFile: string | undefined;
};

/** The answer for which a tool runs. */
export type ToolContext = {
  user: User;
  sessionId: string;
  signal: AbortSignal;
  /** Stores a change of memory, so that people can see and undo it whatever becomes of the answer. */
  recordChange: RecordChange;
  /** Maximum length of the output as JSON, in bytes; the rest is cut. */
  outputBytes: number;
};

/** The result of a tool. */
export type ToolOutput = {
  /** Output for the model, as JSON. */
  data: unknown;
  /** Output for later answers: shorter, and without strangers' texts, which could give orders one answer later. */
  kept?: unknown;
  /** The result in a few words, for people. */
  summary: string;
  /** Changes of memory, for people to see and undo. */
  changes?: readonly MemoryChange[];
};

/** An action that an agent can call. */
export type Tool<Input extends TSchema = TSchema> = {
  name: string;
  /** For the model: what it does and when to use it. */
  description: string;
  input: Input;
  /** Whether strangers wrote the output, so that it is data and gives no orders. */
  isData: boolean;
  /** Whether it changes memory. Then it does not run in an answer that has read strangers' texts. */
  changesMemory?: boolean;
  /** Whether every profile has it in sessions with files, and none lists it. */
  isForFiles?: boolean;
  /** The permission that it needs besides `svc.tools.use`. */
  permission?: Permission;
  /** The title of its step, for people. */
  title: (input: Static<Input>) => string;
  /** @throws ProblemError, or ToolError with a message for the model and the user. */
  run: (input: Static<Input>, context: ToolContext & ToolServices) => Promise<ToolOutput>;
  /** When and how the mock agent uses it. */
  mock?: MockRule;
};

/** The languages in which the mock agent answers. */
export type Language = 'uk' | 'ru' | 'en';

/** A message to the mock agent. */
export type Question = {
  text: string;
  criteria: SearchCriteria;
  language: Language;
  /** The instructions, which list the facts of the user. */
  system: string;
  /** The conversation before the message. */
  before: readonly ChatMessage[];
};

/** The use of a tool by the mock agent. */
export type MockRule = {
  /** Returns the input for a message that the tool serves, an answer without a call, or undefined. */
  call: (question: Question) => object | string | undefined;
  /** Returns an answer from the output of the tool. */
  answer: (data: Readonly<Record<string, unknown>>, language: Language) => string;
};

/** A tool with its definition for the model and the validation of its input. */
export type DefinedTool = Tool & {
  definition: ToolDefinition;
  /** Returns the faults of an input. */
  findFaults: (input: unknown) => string[];
};

/** Maximum number of faults of an input that are reported. */
const MAX_FAULTS = 5;

/** Defines a tool and compiles its schema. */
export function defineTool<Input extends TSchema>(tool: Tool<Input>): DefinedTool {
  const validator = Compile(tool.input);
  const { name, description } = tool;
  return {
    // Its functions get inputs that were validated against the schema.
    ...(tool as unknown as Tool),
    definition: { name, description, input: defineModelSchema(name, tool.input) },
    findFaults: (input: unknown): string[] =>
      validator
        .Errors(input)
        .slice(0, MAX_FAULTS)
        .map(({ instancePath, message }) => `${instancePath || 'it'} ${message}`),
  };
}

/** A failure of a tool, with a message for the model and the user. */
export class ToolError extends Error {
  override readonly name = 'ToolError';
}
