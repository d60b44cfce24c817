import {
  type ChatMessage,
  defineModelSchema,
  type SearchCriteria,
  type ToolDefinition,
} from '@oselya/model';
import type { MemoryChange } from '@oselya/protocol';
import type { Static, TSchema } from 'typebox';
import { Compile } from 'typebox/compile';
import type { Permission, User } from '../../access/permissions.ts';
import type { CollectorClient } from '../../collector/client.ts';
import type { Files } from '../../files/files.ts';
import type { RecordChange } from '../../memory/facts.ts';
import type { Memory } from '../../memory/memory.ts';

export type ToolServices = {
  collector: CollectorClient;
  memory: Memory;
  files: Files;
  inventoryFile: string | undefined;
};

export type ToolContext = {
  user: User;
  sessionId: string;
  signal: AbortSignal;
  /** Stores a memory change, which the user can then see and undo even if the answer fails. */
  recordChange: RecordChange;
  /** Maximum output length as JSON, in bytes. Longer output is truncated. */
  outputBytes: number;
};

export type ToolOutput = {
  data: unknown;
  /** Data for later turns; `data` by default. It contains no third-party text, which could inject instructions. */
  laterData?: unknown;
  summary: string;
  changes?: readonly MemoryChange[];
  /** Listings that the tool read, best first. */
  listingIds?: readonly number[];
};

export type Tool<Input extends TSchema = TSchema> = {
  name: string;
  /** Describes for the model what the tool does and when to use it. */
  description: string;
  input: Input;
  /** Whether the output contains third-party text, which must not act as instructions. */
  hasThirdPartyText: boolean;
  /** Whether the tool changes memory. Such a tool does not run after third-party text was read in the same turn. */
  canChangeMemory?: boolean;
  /** Whether every session with files has the tool. Profiles do not list such a tool. */
  isFileTool?: boolean;
  /** Required permission in addition to `svc.tools.use`. */
  permission?: Permission;
  title: (input: Static<Input>) => string;
  /** Runs the tool. @throws ProblemError, or CollectorError or ToolError with a message for the model and the user. */
  run: (input: Static<Input>, context: ToolContext & ToolServices) => Promise<ToolOutput>;
  mock?: MockRule;
};

export type MockLanguage = 'uk' | 'ru' | 'en';

/** A question to the mock agent, with the system message and the messages before it. */
export type MockQuestion = {
  text: string;
  criteria: SearchCriteria;
  language: MockLanguage;
  system: string;
  earlierMessages: readonly ChatMessage[];
};

/** The rule by which the mock agent uses a tool. */
export type MockRule = {
  /** Returns the tool input, or an answer without a call. Undefined if the rule does not match the question. */
  call: (question: MockQuestion) => object | string | undefined;
  /** Formats an answer from the output of the tool. */
  answer: (data: Readonly<Record<string, unknown>>, language: MockLanguage) => string;
};

/** A tool with its model definition and its input validator. */
export type DefinedTool = Tool & {
  definition: ToolDefinition;
  validate: (input: unknown) => string[];
};

const MAX_ERRORS = 5;

/** Defines a tool and compiles its schema. */
export function defineTool<Input extends TSchema>(tool: Tool<Input>): DefinedTool {
  const validator = Compile(tool.input);
  const { name, description } = tool;
  return {
    // The cast is safe, because every input is validated before a function gets it.
    ...(tool as unknown as Tool),
    definition: { name, description, input: defineModelSchema(name, tool.input) },
    validate: (input: unknown): string[] =>
      validator
        .Errors(input)
        .slice(0, MAX_ERRORS)
        .map(({ instancePath, message }) => `${instancePath || 'it'} ${message}`),
  };
}

/** Thrown for a failed tool call, with a message for the model and the user. */
export class ToolError extends Error {
  override readonly name = 'ToolError';
}
