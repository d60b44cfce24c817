import type {
  LanguageModelV4CallOptions,
  LanguageModelV4Prompt,
  LanguageModelV4StreamPart,
} from '@ai-sdk/provider';
import { countWords } from '../count-words.ts';
import type { ChatMessage, Conversation, Reply, ToolCall } from '../conversation.ts';

/** The conversation in what the SDK hands to a model. */
export function conversationIn({
  prompt,
  tools = [],
  toolChoice,
}: LanguageModelV4CallOptions): Conversation {
  return {
    system: prompt.flatMap(({ role, content }) => (role === 'system' ? [content] : [])).join('\n'),
    messages: prompt.flatMap(toMessages),
    tools: toolChoice?.type === 'none' ? [] : tools.map(({ name }) => name),
  };
}

function toMessages(message: LanguageModelV4Prompt[number]): ChatMessage[] {
  switch (message.role) {
    case 'user':
      return [{ role: 'user', content: textOf(message.content) }];
    case 'assistant': {
      const toolCalls = message.content.flatMap((part): ToolCall[] =>
        part.type === 'tool-call'
          ? [{ id: part.toolCallId, name: part.toolName, input: part.input }]
          : [],
      );
      return [{ role: 'assistant', content: textOf(message.content), toolCalls }];
    }
    case 'tool':
      return message.content.flatMap((part): ChatMessage[] => {
        if (part.type !== 'tool-result') return [];
        const content = part.output.type === 'text' ? part.output.value : '';
        return [{ role: 'tool', toolCallId: part.toolCallId, toolName: part.toolName, content }];
      });
    default:
      return [];
  }
}

function textOf(content: readonly { type: string; text?: string }[]): string {
  return content.map((part) => (part.type === 'text' ? (part.text ?? '') : '')).join('');
}

/** A word with the space after it. */
const WORD = /\S+\s*|\s+/gu;

/** A reply as models stream them: word by word, then the tools. */
export function streamReply(
  { text = '', toolCalls = [] }: Reply,
  { modelId, read }: { modelId: string; read: number },
): ReadableStream<LanguageModelV4StreamPart> {
  const written = countWords([text, ...toolCalls.map(({ input }) => JSON.stringify(input))]);
  const isCalling = toolCalls.length > 0;
  const id = 'text';
  const words = text.match(WORD) ?? [];
  const parts: LanguageModelV4StreamPart[] = [
    { type: 'stream-start', warnings: [] },
    { type: 'response-metadata', modelId },
    { type: 'text-start', id },
    ...words.map((delta) => ({ type: 'text-delta' as const, id, delta })),
    { type: 'text-end', id },
    ...toolCalls.map(({ id: toolCallId, name, input }) => ({
      type: 'tool-call' as const,
      toolCallId,
      toolName: name,
      input: JSON.stringify(input),
    })),
    {
      type: 'finish',
      finishReason: { unified: isCalling ? 'tool-calls' : 'stop', raw: undefined },
      usage: {
        inputTokens: { total: read, noCache: read, cacheRead: 0, cacheWrite: 0 },
        outputTokens: { total: written, text: written, reasoning: 0 },
      },
    },
  ];
  return ReadableStream.from(parts);
}
