import type { ProblemError } from '@oselya/kit';
import type { ChatMessage, ChatRequest } from '@oselya/model';
import { problem } from '../errors.ts';
import { estimateRequest, tokensOf } from './estimate.ts';

/** What of the model's window tools leave to the answer at most, where that may be so long. */
const ANSWER_SHARE = 1 / 4;

/** The least room for an answer, of the window: a question that leaves less is not asked. */
const LEAST_ANSWER_SHARE = 1 / 16;

/** How many tokens an answer must have room for at least, where it may be so long. */
export const leastAnswerTokens = (contextTokens: number): number =>
  Math.floor(contextTokens * LEAST_ANSWER_SHARE);

/**
 * What there is room for in the model's window while one answer is made. ADR 0028.
 * @param answer.request What is sent first.
 * @param answer.outputTokens How long the answer may be.
 * @throws ProblemError `message_too_long` where the question leaves no room for an answer.
 */
export function openWindow({
  request,
  contextTokens,
  outputTokens,
}: {
  request: Pick<ChatRequest, 'system' | 'messages' | 'tools'>;
  contextTokens: number;
  outputTokens: number;
}) {
  const roomBeside = (asked: typeof request) => contextTokens - estimateRequest(asked);
  const first = roomBeside(request);
  const least = Math.min(outputTokens, leastAnswerTokens(contextTokens));
  if (first < least) throw messageTooLong(request.messages, first - least);
  const ofAnswer = Math.floor(Math.min(contextTokens * ANSWER_SHARE, first / 2));

  return {
    /** How many tokens may be written to a request; none where it is less than 1. */
    roomBeside,

    /**
     * How many tokens a tool may tell: the answer must have its room after it.
     * @param messages With what stands there whatever it tells: its result without a word, and the least results of
     *   the tools that come after it.
     * @param tokensLeft How much may still be written.
     */
    roomForTool: (messages: readonly ChatMessage[], tokensLeft: number): number =>
      roomBeside({ ...request, messages }) - Math.min(tokensLeft, ofAnswer),
  };
}

/** With the sizes, by which whoever asked can help it. */
function messageTooLong(messages: readonly ChatMessage[], roomLeft: number): ProblemError {
  const last = messages.at(-1);
  const size = last === undefined ? 0 : tokensOf(last);
  return problem('message_too_long', {
    detail: `It is about ${size} tokens long, and there is room for ${Math.max(0, size + roomLeft)}. Send it in parts, or attach it as a text file and ask about that.`,
  });
}
