import { jsonSchema, type ModelMessage, tool, type ToolSet } from 'ai';
import type { ChatMessage, ToolDefinition } from '../conversation.ts';

/** A conversation as the SDK has it. */
export function toModelMessages(messages: readonly ChatMessage[]): ModelMessage[] {
  return messages.map((message): ModelMessage => {
    if (message.role === 'user') return { role: 'user', content: message.content };
    if (message.role === 'tool') {
      const { toolCallId, toolName, content } = message;
      const output = { type: 'text' as const, value: content };
      return { role: 'tool', content: [{ type: 'tool-result', toolCallId, toolName, output }] };
    }
    const { content, toolCalls = [] } = message;
    return {
      role: 'assistant',
      content: [
        ...(content === '' ? [] : [{ type: 'text' as const, text: content }]),
        ...toolCalls.map(({ id, name, input }) => ({
          type: 'tool-call' as const,
          toolCallId: id,
          toolName: name,
          input,
        })),
      ],
    };
  });
}

/** Tools as the SDK has them; it runs none of them. */
export function toToolSet(tools: readonly ToolDefinition[]): ToolSet {
  return Object.fromEntries(
    tools.map(({ name, description, input }) => [
      name,
      tool({ description, inputSchema: jsonSchema(JSON.parse(JSON.stringify(input))) }),
    ]),
  );
}
