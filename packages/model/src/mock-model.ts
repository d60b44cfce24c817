import {
  type EmbeddingModelV4,
  InvalidPromptError,
  type LanguageModelV4,
  type LanguageModelV4CallOptions,
  type LanguageModelV4Prompt,
  type LanguageModelV4StreamPart,
  UnsupportedFunctionalityError,
} from '@ai-sdk/provider';
import type { ChatMessage, Conversation, MockAgent, Reply, ToolCall } from './conversation.ts';
import { describeImage } from './mock/describe-image.ts';
import { embedText } from './mock/embed.ts';
import { extractListing } from './mock/extract-listing.ts';
import type { ModelBackend } from './openai.ts';
import type { ModelClientOptions } from './options.ts';

const MOCK_ADDRESS = {
  variables: { baseUrl: 'MODEL_MODE', apiKey: 'MODEL_MODE' },
  apiKey: undefined,
};

/** Creates models that answer by rules and need no server. The same request always gets the same answer. */
export function createMockBackend({
  embeddingDimensions,
  mockAgent,
  vision,
}: Pick<ModelClientOptions, 'embeddingDimensions' | 'mockAgent' | 'vision'>): ModelBackend {
  const chat = createLanguageModel('mock', mockAgent);
  return {
    chat,
    chatModel: (name) => createLanguageModel(name, mockAgent),
    vision: vision === false ? undefined : chat,
    embedding: createEmbeddingModel(embeddingDimensions),
    addresses: { chat: MOCK_ADDRESS, vision: MOCK_ADDRESS, embedding: MOCK_ADDRESS },
    health: async () => ({ status: 'ok' }),
    close: async () => undefined,
  };
}

function createLanguageModel(modelId: string, agent: MockAgent | undefined): LanguageModelV4 {
  return {
    specificationVersion: 'v4',
    provider: 'mock',
    modelId,
    supportedUrls: {},
    async doGenerate(options) {
      const text = JSON.stringify(applyRule(options));
      return {
        content: [{ type: 'text', text }],
        finishReason: { unified: 'stop', raw: 'stop' },
        usage: countUsage(options.prompt, [text]),
        warnings: [],
      };
    },
    async doStream(options) {
      if (agent === undefined) {
        throw new UnsupportedFunctionalityError({ functionality: 'streaming from the mock model' });
      }
      const reply = agent(toConversation(options));
      return { stream: ReadableStream.from(toStreamParts(reply, modelId, options.prompt)) };
    },
  };
}

function toStreamParts(
  { text = '', toolCalls = [] }: Reply,
  modelId: string,
  prompt: LanguageModelV4Prompt,
): LanguageModelV4StreamPart[] {
  const id = 'text';
  const calls = toolCalls.map(({ id: toolCallId, name: toolName, input }) => ({
    type: 'tool-call' as const,
    toolCallId,
    toolName,
    input: JSON.stringify(input),
  }));
  return [
    { type: 'response-metadata', modelId },
    { type: 'text-start', id },
    ...(text.match(/\S+\s*|\s+/gu) ?? []).map(
      (delta) => ({ type: 'text-delta', id, delta }) as const,
    ),
    { type: 'text-end', id },
    ...calls,
    {
      type: 'finish',
      finishReason: { unified: calls.length > 0 ? 'tool-calls' : 'stop', raw: undefined },
      usage: countUsage(prompt, [text, ...calls.map(({ input }) => input)]),
    },
  ];
}

function createEmbeddingModel(dimensions: number): EmbeddingModelV4 {
  return {
    specificationVersion: 'v4',
    provider: 'mock',
    modelId: 'mock-embedding',
    maxEmbeddingsPerCall: undefined,
    supportsParallelCalls: true,
    doEmbed: async ({ values }) => ({
      embeddings: values.map((value) => embedText(value, dimensions)),
      usage: { tokens: countWords(values) },
      warnings: [],
    }),
  };
}

/** Mock rules by completion schema name. The data and the image come from the request. */
const RULES_BY_SCHEMA: Record<string, (data: object, image: Uint8Array | undefined) => object> = {
  listing_extraction: extractListing,
  image_description(data: { hint?: unknown }, image) {
    if (image === undefined) {
      throw new InvalidPromptError({ prompt: data, message: 'There is no image to describe.' });
    }
    return describeImage(image, typeof data.hint === 'string' ? data.hint : '');
  },
};

function applyRule({ prompt, responseFormat }: LanguageModelV4CallOptions): unknown {
  const format = responseFormat?.type === 'json' ? responseFormat : undefined;
  const rule = RULES_BY_SCHEMA[format?.name ?? ''];
  if (rule === undefined) {
    throw new UnsupportedFunctionalityError({
      functionality: 'this answer',
      message: `The mock model has no rules for answers named ${format?.name}. It knows ${Object.keys(RULES_BY_SCHEMA).join(' and ')}.`,
    });
  }
  const parts = prompt.flatMap((message) => (message.role === 'user' ? message.content : []));
  const text = parts.find((part) => part.type === 'text')?.text ?? 'null';
  const file = parts.find((part) => part.type === 'file');
  const bytes = file?.data.type === 'data' ? file.data.data : undefined;
  const answer = rule(Object(JSON.parse(text)), bytes instanceof Uint8Array ? bytes : undefined);
  // Fields without a rule are null.
  const keys = Object.keys(format?.schema?.properties ?? {});
  return { ...Object.fromEntries(keys.map((key) => [key, null])), ...answer };
}

/** Converts an SDK prompt to a conversation. */
function toConversation(options: LanguageModelV4CallOptions): Conversation {
  const { prompt, tools = [], toolChoice } = options;
  return {
    system: prompt.flatMap(({ role, content }) => (role === 'system' ? [content] : [])).join('\n'),
    messages: prompt.flatMap(toMessages),
    tools: toolChoice?.type === 'none' ? [] : tools.map(({ name }) => name),
  };
}

function toMessages({ role, content: parts }: LanguageModelV4Prompt[number]): ChatMessage[] {
  if (role === 'system') return [];
  const content = parts.map((part) => (part.type === 'text' ? part.text : '')).join('');
  if (role === 'user') return [{ role, content }];
  if (role === 'tool') {
    return parts.flatMap((part): ChatMessage[] => {
      if (part.type !== 'tool-result' || part.output.type !== 'text') return [];
      const { toolCallId, toolName, output } = part;
      return [{ role, toolCallId, toolName, content: output.value }];
    });
  }
  const toolCalls = parts.flatMap((part): ToolCall[] =>
    part.type === 'tool-call'
      ? [{ id: part.toolCallId, name: part.toolName, input: part.input }]
      : [],
  );
  return [{ role, content, toolCalls }];
}

function countUsage(prompt: LanguageModelV4Prompt, completions: readonly string[]) {
  const texts = prompt.flatMap(({ content }) =>
    typeof content === 'string'
      ? [content]
      : content.map((part) => (part.type === 'text' ? part.text : '')),
  );
  const [inputCount, outputCount] = [countWords(texts), countWords(completions)];
  return {
    inputTokens: { total: inputCount, noCache: inputCount, cacheRead: 0, cacheWrite: 0 },
    outputTokens: { total: outputCount, text: outputCount, reasoning: 0 },
  };
}

/** Counts words, numbers and punctuation as tokens. Real models use two to three times as many for Cyrillic text. */
const countWords = (texts: readonly string[]): number =>
  texts.join(' ').match(/[\p{L}\p{N}]+|[^\s\p{L}\p{N}]/gu)?.length ?? 0;
