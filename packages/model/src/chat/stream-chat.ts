import type { Breaker } from '../resilience/breaker.ts';
import type { CallPolicy } from '../resilience/call-policy.ts';
import type { ChatPart } from './answer-parts.ts';
import { type ChatRequest, openAnswer, type OpenAnswerDeps } from './open-answer.ts';

/** What streaming an answer needs. */
export type StreamChatDeps = {
  call: CallPolicy;
  breaker: Breaker;
} & OpenAnswerDeps;

/**
 * Has the model go on with a conversation, and gives its answer as it comes. Until the first part has come
 * a failure is tried again as in every call (Contract 4, Model); from then on it ends the stream, since what
 * was given cannot be taken back.
 *
 * @throws ModelError MODEL_TIMEOUT where the next part does not come in time, MODEL_REFUSED, and every
 *   other code of a request.
 */
export async function* streamChat(
  deps: StreamChatDeps,
  request: ChatRequest,
): AsyncGenerator<ChatPart, void, undefined> {
  const answer = await deps.call(request.signal, (context) =>
    deps.breaker.run(() => openAnswer(deps, request, context)),
  );
  try {
    yield* answer.parts();
  } finally {
    answer.close();
  }
}
