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

const CHAT_MODEL = 'mock';
const EMBEDDING_MODEL = 'mock-embedding';
const ADDRESS = { variables: { baseUrl: 'MODEL_MODE', apiKey: 'MODEL_MODE' }, apiKey: undefined };

/** Creates models that answer by rules and need no server. Equal requests get equal answers. */
export function createMockBackend({
  embeddingDimensions,
  mockAgent,
  vision,
}: Pick<ModelClientOptions, 'embeddingDimensions' | 'mockAgent' | 'vision'>): ModelBackend {
  const chat = createLanguageModel(CHAT_MODEL, mockAgent);
  return {
    chat,
    chatModel: (name) => createLanguageModel(name, mockAgent),
    vision: vision === false ? undefined : chat,
    embedding: createEmbeddingModel(embeddingDimensions),
    addresses: { chat: ADDRESS, vision: ADDRESS, embedding: ADDRESS },
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
      return {
        stream: ReadableStream.from(toStreamParts(agent(toConversation(options)), options)),
      };
    },
  };

  function toStreamParts(
    { text = '', toolCalls = [] }: Reply,
    { prompt }: LanguageModelV4CallOptions,
  ): LanguageModelV4StreamPart[] {
    const inputs = toolCalls.map(({ input }) => JSON.stringify(input));
    const id = 'text';
    return [
      { type: 'response-metadata', modelId },
      { type: 'text-start', id },
      ...(text.match(/\S+\s*|\s+/gu) ?? []).map(
        (delta) => ({ type: 'text-delta', id, delta }) as const,
      ),
      { type: 'text-end', id },
      ...toolCalls.map(
        ({ id: toolCallId, name: toolName }, nth) =>
          ({ type: 'tool-call', toolCallId, toolName, input: inputs[nth] ?? '' }) as const,
      ),
      {
        type: 'finish',
        finishReason: { unified: toolCalls.length > 0 ? 'tool-calls' : 'stop', raw: undefined },
        usage: countUsage(prompt, [text, ...inputs]),
      },
    ];
  }
}

function createEmbeddingModel(dimensions: number): EmbeddingModelV4 {
  return {
    specificationVersion: 'v4',
    provider: 'mock',
    modelId: EMBEDDING_MODEL,
    maxEmbeddingsPerCall: undefined,
    supportsParallelCalls: true,
    doEmbed: async ({ values }) => ({
      embeddings: values.map((value) => embedText(value, dimensions)),
      usage: { tokens: countWords(values) },
      warnings: [],
    }),
  };
}

type RuleInput = {
  data: unknown;
  image: { bytes: Uint8Array } | undefined;
  /** Keys of the answer schema. */
  keys: string[];
};

/** Rules of the mock, by name of the answer schema. */
const RULES: Record<string, (question: RuleInput) => unknown> = {
  // Fields without a rule are null.
  listing_extraction: ({ data, keys }) => ({
    ...Object.fromEntries(keys.map((key) => [key, null])),
    ...extractListing(data),
  }),
  image_description({ data, image }) {
    if (!image) {
      throw new InvalidPromptError({ prompt: data, message: 'There is no image to describe.' });
    }
    const { hint } = Object(data) as { hint?: unknown };
    return describeImage(image.bytes, typeof hint === 'string' ? hint : '');
  },
};

function applyRule({ prompt, responseFormat }: LanguageModelV4CallOptions): unknown {
  const format = responseFormat?.type === 'json' ? responseFormat : undefined;
  const name = format?.name ?? '(nothing)';
  const rule = RULES[name];
  if (rule === undefined) {
    throw new UnsupportedFunctionalityError({
      functionality: `answers named ${name}`,
      message: `The mock model has no rules for answers named ${name}. It knows ${Object.keys(RULES).join(' and ')}.`,
    });
  }
  const parts = prompt.flatMap((message) => (message.role === 'user' ? message.content : []));
  const text = parts.find((part) => part.type === 'text');
  const file = parts.find((part) => part.type === 'file');
  const bytes = file?.data.type === 'data' ? file.data.data : undefined;
  return rule({
    data: text && JSON.parse(text.text),
    image: bytes instanceof Uint8Array ? { bytes } : undefined,
    keys: Object.keys(format?.schema?.properties ?? {}),
  });
}

/** Converts a prompt of the SDK to a conversation. */
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

function countUsage(prompt: LanguageModelV4Prompt, written: readonly string[]) {
  const texts = prompt.flatMap(({ content }) =>
    typeof content === 'string'
      ? [content]
      : content.map((part) => (part.type === 'text' ? part.text : '')),
  );
  const [input, output] = [countWords(texts), countWords(written)];
  return {
    inputTokens: { total: input, noCache: input, cacheRead: 0, cacheWrite: 0 },
    outputTokens: { total: output, text: output, reasoning: 0 },
  };
}

/** Counts words, numbers and punctuation as tokens. Real models use two to three times as many for Cyrillic text. */
function countWords(texts: readonly string[]): number {
  const pieces = /[\p{L}\p{N}]+|[^\s\p{L}\p{N}]/gu;
  return texts.reduce((count, text) => count + (text.match(pieces)?.length ?? 0), 0);
}
