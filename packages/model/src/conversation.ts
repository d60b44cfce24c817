import type { ModelSchema } from './model-schema.ts';

/** What a model asked to have done. */
export type ToolCall = {
  /** Of the model; the result names it. */
  id: string;
  name: string;
  /** As the model wrote it: whoever runs the tool checks it. Text that is no JSON stays text. */
  input: unknown;
};

/** A message of a conversation. */
export type ChatMessage =
  | { role: 'user'; content: string }
  | { role: 'assistant'; content: string; toolCalls?: readonly ToolCall[] | undefined }
  | { role: 'tool'; toolCallId: string; toolName: string; content: string };

/** What a model may ask to have done. */
export type ToolDefinition = {
  name: string;
  description: string;
  input: ModelSchema;
};

/** A conversation as a model sees it. */
export type Conversation = {
  system: string;
  messages: ChatMessage[];
  /** The names of the tools that may be asked for. */
  tools: string[];
};

/** What a model says next: a text, tools that it wants to have run, or both. */
export type Reply = {
  text?: string | undefined;
  toolCalls?: readonly ToolCall[] | undefined;
};

/** How the mock answers in a conversation: by the rules of whoever has it. Equal ones get equal answers. */
export type MockAgent = (conversation: Conversation) => Reply;
