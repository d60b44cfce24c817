/** Client for language models: OpenAI-compatible servers and a deterministic mock. */
export type { BreakerState, BreakerView } from './breaker.ts';
export type { ChatPart, ChatRequest } from './chat.ts';
export { createModelClient, type ModelClient } from './client.ts';
export type {
  ChatMessage,
  Conversation,
  MockAgent,
  Reply,
  ToolCall,
  ToolDefinition,
} from './conversation.ts';
export { MAX_TEXTS_PER_REQUEST } from './embed.ts';
export { MODEL_ERRORS, ModelError, type ModelErrorCode } from './errors.ts';
export { extractSearchCriteria, type SearchCriteria } from './mock/extract-listing.ts';
export type { ModelClientOptions } from './options.ts';
export { PROBE_PREFIX, type Probe, startProbes } from './probes.ts';
export {
  defineCompletion,
  defineModelSchema,
  imageDescription,
  type ModelSchema,
} from './schema.ts';
export type { ObjectRequest } from './structured.ts';
export { createUsage, type ModelCallEvent, type Tokens, type Usage } from './usage.ts';
