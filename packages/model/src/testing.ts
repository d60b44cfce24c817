/** Fake model server for tests and benchmarks. */
export {
  chunk,
  completion,
  createConstantHandler,
  constantVector,
  extractEmbeddedTexts,
  embeddings,
  LISTING,
  createStreamedResponse,
  createToolCallChunk,
  writeEvent,
} from './testing/answers.ts';
export {
  type ScriptedResponse,
  type ModelServer,
  type ReceivedRequest,
  type RequestHandler,
  startModelServer,
} from './testing/model-server.ts';
export { definedModelSchemas } from './schema.ts';
