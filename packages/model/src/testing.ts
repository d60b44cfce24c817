/** Fake model server for tests and benchmarks. */
export {
  chunk,
  completion,
  constantAnswers,
  constantVector,
  embeddedTexts,
  embeddings,
  LISTING,
  streamed,
  toolCallChunk,
  writeEvent,
} from './testing/answers.ts';
export {
  type Answer,
  type ModelServer,
  type ReceivedRequest,
  type RequestHandler,
  startModelServer,
} from './testing/model-server.ts';
export { definedModelSchemas } from './schema.ts';
