import type {
  JSONSchema7,
  LanguageModelV4FunctionTool,
  LanguageModelV4Prompt,
} from '@ai-sdk/provider';
import type { ChatMessage, ToolDefinition } from '../conversation.ts';

/** A conversation as providers of the SDK take it. */
export function toPrompt(system: string, messages: readonly ChatMessage[]): LanguageModelV4Prompt {
  return [{ role: 'system', content: system }, ...messages.map(toPromptMessage)];
}

function toPromptMessage(message: ChatMessage): LanguageModelV4Prompt[number] {
  if (message.role === 'user') {
    return { role: 'user', content: [{ type: 'text', text: message.content }] };
  }
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
}

/** Tools as providers of the SDK take them. */
export function toTools(tools: readonly ToolDefinition[]): LanguageModelV4FunctionTool[] {
  return tools.map(({ name, description, input }) => ({
    type: 'function',
    name,
    description,
    // The SDK's type of JSON Schema is not read-only.
    inputSchema: input as JSONSchema7,
  }));
}
