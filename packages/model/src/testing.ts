/** A server in place of a model server, for whoever tests or measures what asks one. */
export {
  constantAnswers,
  completion,
  embeddings,
  LISTING,
  constantVector,
  embeddedTexts,
} from './testing/answers.ts';
export {
  startModelServer,
  type Answer,
  type ModelServer,
  type RequestHandler,
  type ReceivedRequest,
} from './testing/model-server.ts';
export { definedModelSchemas } from './schema.ts';
export { chunk, streamed, toolCallChunk, writeEvent } from './testing/stream.ts';
