import {
  InvalidPromptError,
  NoSuchModelError,
  UnsupportedFunctionalityError,
  type EmbeddingModelV4,
  type LanguageModelV4,
  type LanguageModelV4CallOptions,
  type LanguageModelV4FilePart,
  type ProviderV4,
} from '@ai-sdk/provider';
import { imageDescription } from '../answers/image-description.ts';
import { describeImage, embedText, readListing } from '../mock/index.ts';
import type { MockAgent } from '../conversation.ts';
import { countWords } from '../count-words.ts';
import type { ModelBackend } from './backend.ts';
import { conversationIn, streamReply } from './mock-conversation.ts';

/** The names the mock's models go by, in place of `MODEL_CHAT` and `MODEL_EMBEDDING`. */
const CHAT_MODEL = 'mock';
const EMBEDDING_MODEL = 'mock-embedding';

/** The name of the schema whose answers the rules for listings give. */
const LISTING_ANSWER = 'listing_extraction';

/** @property agent How it answers in conversations; it refuses them without one. */
type MockOptions = { dimensions: number; agent?: MockAgent | undefined };

const MODE = { variables: { baseUrl: 'MODEL_MODE', apiKey: 'MODEL_MODE' }, apiKey: undefined };

/** The mock's models, which need no server (Specification 001, What the service does). */
export function createMockBackend(options: MockOptions & { sees: boolean }): ModelBackend {
  const provider = createMockProvider(options);
  return {
    chat: provider.languageModel(CHAT_MODEL),
    chatModel: (name) => provider.languageModel(name),
    vision: options.sees ? provider.languageModel(CHAT_MODEL) : undefined,
    embedding: provider.embeddingModel(EMBEDDING_MODEL),
    addresses: { chat: MODE, vision: MODE, embedding: MODE },
    health: async () => ({ status: 'ok' }),
    close: async () => undefined,
  };
}

/** An AI SDK provider that answers by rules: equal questions get equal answers. */
export function createMockProvider({ dimensions, agent }: MockOptions): ProviderV4 {
  return {
    specificationVersion: 'v4',
    languageModel: (modelId) => languageModel(modelId, agent),
    embeddingModel: (modelId) => embeddingModel(modelId, dimensions),
    imageModel: (modelId) => {
      throw new NoSuchModelError({ modelId, modelType: 'imageModel' });
    },
  };
}

function languageModel(modelId: string, agent: MockAgent | undefined): LanguageModelV4 {
  return {
    specificationVersion: 'v4',
    provider: 'mock',
    modelId,
    supportedUrls: {},
    doGenerate: async (options) => {
      const text = JSON.stringify(answer(options));
      const read = countWords(textsIn(options.prompt));
      const written = countWords([text]);
      return {
        content: [{ type: 'text', text }],
        finishReason: { unified: 'stop', raw: 'stop' },
        usage: {
          inputTokens: { total: read, noCache: read, cacheRead: 0, cacheWrite: 0 },
          outputTokens: { total: written, text: written, reasoning: 0 },
        },
        warnings: [],
      };
    },
    doStream: async (options) => {
      if (agent === undefined) {
        throw new UnsupportedFunctionalityError({ functionality: 'streaming from the mock model' });
      }
      const read = countWords(textsIn(options.prompt));
      return { stream: streamReply(agent(conversationIn(options)), { modelId, read }) };
    },
  };
}

function embeddingModel(modelId: string, dimensions: number): EmbeddingModelV4 {
  return {
    specificationVersion: 'v4',
    provider: 'mock',
    modelId,
    maxEmbeddingsPerCall: undefined,
    supportsParallelCalls: true,
    doEmbed: async ({ values }) => ({
      embeddings: values.map((value) => embedText(value, dimensions)),
      usage: { tokens: countWords(values) },
      warnings: [],
    }),
  };
}

function answer({ prompt, responseFormat }: LanguageModelV4CallOptions): unknown {
  const name = responseFormat?.type === 'json' ? responseFormat.name : undefined;
  switch (name) {
    case LISTING_ANSWER:
      return readListing(questionIn(prompt).data);
    case imageDescription.schemaName: {
      const { data, image } = questionIn(prompt);
      if (!image)
        throw new InvalidPromptError({ prompt, message: 'There is no image to describe.' });
      return describeImage({ ...image, ...hintIn(data) });
    }
    default:
      throw new UnsupportedFunctionalityError({
        functionality: `answers named ${name ?? '(nothing)'}`,
        message: `The mock model has no rules for answers named ${name ?? '(nothing)'}. It knows ${LISTING_ANSWER} and ${imageDescription.schemaName}.`,
      });
  }
}

/** Finds the data and the picture in the conversation's first question. */
function questionIn(prompt: LanguageModelV4CallOptions['prompt']) {
  const parts = prompt.flatMap((message) => (message.role === 'user' ? message.content : []));
  const text = parts.find((part) => part.type === 'text');
  const file = parts.find((part) => part.type === 'file');
  const data: unknown = text === undefined ? undefined : JSON.parse(text.text);
  return { data, image: file === undefined ? undefined : imageIn(file) };
}

/** All texts of a conversation, whoever said them. */
function textsIn(prompt: LanguageModelV4CallOptions['prompt']): string[] {
  return prompt.flatMap(({ content }) =>
    typeof content === 'string'
      ? [content]
      : content.flatMap((part) => (part.type === 'text' ? [part.text] : [])),
  );
}

function imageIn({ data, mediaType }: LanguageModelV4FilePart) {
  if (data.type !== 'data') {
    throw new UnsupportedFunctionalityError({ functionality: 'images that are not sent inline' });
  }
  const bytes = typeof data.data === 'string' ? Buffer.from(data.data, 'base64') : data.data;
  return { media_type: mediaType, bytes };
}

/** A `hint` in the data, such as a file's name, helps the rules to tell what a picture shows. */
function hintIn(data: unknown): { hint?: string } {
  const hint: unknown = typeof data === 'object' && data !== null && 'hint' in data && data.hint;
  return typeof hint === 'string' ? { hint } : {};
}
