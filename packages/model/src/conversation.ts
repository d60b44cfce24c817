import type { ModelSchema } from './schema.ts';

export type ToolCall = {
  /** ID that the model assigned. The tool result refers to it. */
  id: string;
  name: string;
  /** Unvalidated input from the model. A string if it is not valid JSON. */
  input: unknown;
};

export type ChatMessage =
  | { role: 'user'; content: string }
  | { role: 'assistant'; content: string; toolCalls?: readonly ToolCall[] | undefined }
  | { role: 'tool'; toolCallId: string; toolName: string; content: string };

export type ToolDefinition = { name: string; description: string; input: ModelSchema };

export type Conversation = {
  system: string;
  messages: ChatMessage[];
  tools: string[];
};

/** Reply of the mock agent: text, tool calls, or both. */
export type Reply = {
  text?: string | undefined;
  toolCalls?: readonly ToolCall[] | undefined;
};

/** Replies to conversations instead of a model. The same conversation must always get the same reply. */
export type MockAgent = (conversation: Conversation) => Reply;
