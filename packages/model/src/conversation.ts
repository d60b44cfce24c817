import type { ModelSchema } from './schema.ts';

/** A call of a tool by a model. */
export type ToolCall = {
  /** Made by the model; the result names it. */
  id: string;
  name: string;
  /** As the model wrote it, unchecked. Text that is not JSON stays text. */
  input: unknown;
};

/** A message of a conversation. */
export type ChatMessage =
  | { role: 'user'; content: string }
  | { role: 'assistant'; content: string; toolCalls?: readonly ToolCall[] | undefined }
  | { role: 'tool'; toolCallId: string; toolName: string; content: string };

/** A tool that a model may call. */
export type ToolDefinition = { name: string; description: string; input: ModelSchema };

/** A conversation as the mock agent sees it. */
export type Conversation = {
  system: string;
  messages: ChatMessage[];
  /** The names of the tools that may be called. */
  tools: string[];
};

/** A text, tools to call, or both. */
export type Reply = {
  text?: string | undefined;
  toolCalls?: readonly ToolCall[] | undefined;
};

/** Answers conversations in place of a model. Equal conversations must get equal replies. */
export type MockAgent = (conversation: Conversation) => Reply;
