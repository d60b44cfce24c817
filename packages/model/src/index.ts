/** The language-model client: OpenAI-compatible servers and a deterministic mock. */
export { imageDescription } from './answers/image-description.ts';
export type { ImageDescription } from './answers/image-description.ts';
export { listingExtraction } from './answers/listing-extraction.ts';
export type { ListingExtraction } from './answers/listing-extraction.ts';
export type { ChatPart } from './chat/answer-parts.ts';
export type { ChatRequest } from './chat/open-answer.ts';
export type {
  ChatMessage,
  Conversation,
  MockAgent,
  Reply,
  ToolCall,
  ToolDefinition,
} from './conversation.ts';
export type { ModelCallEvent } from './call-event.ts';
export { createModelClient } from './client.ts';
export type { ModelClient } from './client.ts';
export { MAX_TEXTS_PER_REQUEST } from './embed.ts';
export type { EmbedOptions, EmbedResult } from './embed.ts';
export { MODEL_ERRORS, ModelError } from './errors.ts';
export type { ModelErrorCode, Outage } from './errors.ts';
export type { BreakerOptions, ModelClientOptions, RetryOptions } from './options.ts';
export type { BreakerState, BreakerView } from './resilience/breaker.ts';
export { readWish, type Wish } from './mock/index.ts';
export type { ModelHealth } from './providers/backend.ts';
export type { ObjectRequest, ObjectResult } from './structured/generate-object.ts';
export type { ImageInput } from './structured/prompt.ts';
export { createUsage } from './usage.ts';
export type { Tokens, Usage } from './usage.ts';
