/** The language-model client: OpenAI-compatible servers and a deterministic mock. */
export { defineAnswer, type ModelAnswer } from './answers/answer.ts';
export { imageDescription } from './answers/image-description.ts';
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
export { createModelClient, type ModelClient } from './client.ts';
export { MAX_TEXTS_PER_REQUEST } from './embed.ts';
export { MODEL_ERRORS, ModelError, type ModelErrorCode } from './errors.ts';
export type { ModelClientOptions } from './options.ts';
export type { BreakerState, BreakerView } from './resilience/breaker.ts';
export { readSearchCriteria, type SearchCriteria } from './mock/index.ts';
export { defineModelSchema, type ModelSchema } from './model-schema.ts';
export { PROBE_PREFIX, type Probe, startProbes } from './probes.ts';
export type { ObjectRequest } from './structured/generate-object.ts';
export { createUsage, type Tokens, type Usage } from './usage.ts';
