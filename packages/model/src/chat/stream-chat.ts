import type { Breaker } from '../resilience/breaker.ts';
import type { Gate } from '../resilience/gate.ts';
import type { CallPolicy } from '../resilience/call-policy.ts';
import type { ChatPart } from './answer-parts.ts';
import { type ChatRequest, openAnswer, type OpenAnswerDeps } from './open-answer.ts';

/** What streaming an answer needs. */
export type StreamChatDeps = {
  call: CallPolicy;
  gate: Gate;
  breaker: Breaker;
} & OpenAnswerDeps;

/**
 * Has the model go on with a conversation, and gives its answer as it comes. Until the first part has come
 * a failure is tried again as in every call (Contract 4, Model); from then on it ends the stream, since what
 * was given cannot be taken back. The breaker counts a failure at any time, and a success at the end.
 *
 * @throws ModelError MODEL_TIMEOUT where the next part does not come in time, MODEL_REFUSED, and every
 *   other code of a request.
 */
export async function* streamChat(
  deps: StreamChatDeps,
  request: ChatRequest,
): AsyncGenerator<ChatPart, void, undefined> {
  const { gate, breaker } = deps;
  const [answer, leave] = await deps.call(request.signal, async (context) => {
    const end = await gate.enter(context);
    try {
      return [await breaker.begin(() => openAnswer(deps, request, context)), end] as const;
    } catch (error) {
      end(error);
      throw error;
    }
  });
  let failure: unknown;
  try {
    yield* answer.parts();
    await breaker.settle();
  } catch (error) {
    failure = error;
    await breaker.settle(error);
    throw error;
  } finally {
    answer.close();
    leave(failure);
  }
}
