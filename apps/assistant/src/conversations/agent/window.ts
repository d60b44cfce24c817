import type { ProblemError } from '@oselya/kit';
import type { ChatMessage, ChatRequest } from '@oselya/model';
import { computeMaxAnswerTokens } from '../../config.ts';
import { problem } from '../../errors.ts';
import type { Profile } from '../../profiles/profile-file.ts';
import { cutToBytes } from '../../text.ts';
import { toDefinitions, selectTools } from '../tools/tools.ts';

/** Estimated token size in UTF-8: four Latin or two Cyrillic characters. ADR 0023. */
const BYTES_PER_TOKEN = 4;

/** Estimated number of tokens that chat templates add to each message and to each tool call. */
const TEMPLATE_TOKENS = 4;

/** Maximum share of the context window that is reserved for the answer while tools run. */
const ANSWER_SHARE = 1 / 4;

/**
 * Minimum share of the context window for an answer. A question that leaves less is rejected, unless ANSWER_MAX_TOKENS
 * is even lower.
 */
const MIN_ANSWER_SHARE = 1 / 16;

/** Estimates the number of tokens in text. */
export function estimateTokens(text: string): number {
  return Math.ceil(Buffer.byteLength(text) / BYTES_PER_TOKEN);
}

/** Converts an estimated number of tokens to UTF-8 bytes. */
export const tokensToBytes = (tokens: number) => tokens * BYTES_PER_TOKEN;

/** Truncates text to an estimated number of tokens. */
export function truncateToTokens(text: string, tokens: number): string {
  return cutToBytes(text, tokensToBytes(tokens));
}

function estimateMessageTokens(message: ChatMessage): number {
  let tokens = TEMPLATE_TOKENS + estimateTokens(message.content);
  if (message.role === 'tool') {
    tokens += estimateTokens(`${message.toolCallId} ${message.toolName}`);
  } else if (message.role === 'assistant') {
    for (const { id, name, input } of message.toolCalls ?? []) {
      const call = `${id} ${name} ${JSON.stringify(input) ?? ''}`;
      tokens += TEMPLATE_TOKENS + estimateTokens(call);
    }
  }
  return tokens;
}

/** Estimates the number of tokens in request messages. */
export const estimateMessagesTokens = (messages: readonly ChatMessage[]): number =>
  messages.reduce((sum, message) => sum + estimateMessageTokens(message), 0);

type CountedRequest = Pick<ChatRequest, 'system' | 'messages' | 'tools'>;

/** Estimates the number of tokens in a request. All decisions about the context window use this estimate. */
export function estimateRequest({ system, messages, tools = [] }: CountedRequest): number {
  const toolTokens = tools.length === 0 ? 0 : estimateTokens(JSON.stringify(tools));
  return TEMPLATE_TOKENS + estimateTokens(system) + toolTokens + estimateMessagesTokens(messages);
}

/** Returns the longest prefix of items that fits into a token budget, and its size in tokens. */
export function takeFitting<Item>(
  items: readonly Item[],
  estimateItem: (item: Item) => number,
  maxTokens: number,
): { items: Item[]; tokens: number } {
  let tokens = 0;
  const fittingItems: Item[] = [];
  for (const item of items) {
    const totalTokens = tokens + estimateItem(item);
    if (totalTokens > maxTokens) break;
    tokens = totalTokens;
    fittingItems.push(item);
  }
  return { items: fittingItems, tokens };
}

/**
 * Divides a context window into shares, in tokens. Tool output and the answer get the tokens beyond the first request.
 * @param fixedTokens Tokens of instructions and tools. If they exceed a fifth of the window, all shares except
 *   `request` shrink.
 */
export function divideWindow(contextTokens: number, fixedTokens: number) {
  const freeTokens = Math.max(0, contextTokens - fixedTokens);
  const baseTokens = Math.min(contextTokens, freeTokens * 1.25);
  return {
    /** Maximum size of the first request. Earlier messages are summarized if they do not fit. */
    request:
      contextTokens - Math.min(computeMaxAnswerTokens(contextTokens), Math.ceil(freeTokens / 2)),
    facts: Math.floor(baseTokens / 8),
    userSummary: Math.floor(baseTokens / 16),
    files: Math.floor(baseTokens / 16),
    recent: Math.floor(baseTokens / 4),
    summary: Math.floor(baseTokens / 8),
  };
}

const getMinAnswerTokens = (contextTokens: number): number =>
  Math.floor(contextTokens * MIN_ANSWER_SHARE);

/**
 * Creates the token budget of one answer within the context window. ADR 0028.
 * @param answer.request First request of the answer.
 * @throws ProblemError `message_too_long` if the question leaves no room for an answer.
 */
export function createContextWindow({
  request,
  contextTokens,
  outputTokens,
}: {
  request: CountedRequest;
  contextTokens: number;
  outputTokens: number;
}) {
  const getRemainingTokens = (next: CountedRequest) => contextTokens - estimateRequest(next);
  const initialTokens = getRemainingTokens(request);
  const minTokens = Math.min(outputTokens, getMinAnswerTokens(contextTokens));
  if (initialTokens < minTokens)
    throw createTooLongProblem(request.messages, initialTokens - minTokens);
  const answerTokens = Math.floor(Math.min(contextTokens * ANSWER_SHARE, initialTokens / 2));

  return {
    /** Returns the number of tokens that remain for the completion of a request. It can be negative. */
    getRemainingTokens,

    /** Returns the number of tokens that remain for a tool's output. `messages` must include its empty result. */
    getToolOutputTokens: (messages: readonly ChatMessage[], remainingTokens: number): number =>
      getRemainingTokens({ ...request, messages }) - Math.min(remainingTokens, answerTokens),
  };
}

function createTooLongProblem(messages: readonly ChatMessage[], spareTokens: number): ProblemError {
  const size = estimateMessagesTokens(messages.slice(-1));
  return problem('message_too_long', {
    detail: `It is about ${size} tokens long, and there is room for ${Math.max(0, size + spareTokens)}. Send it in parts, or attach it as a text file and ask about that.`,
  });
}

/**
 * Creates a check that a profile's instructions and tools leave room for a question and its answer.
 * @returns A function that returns the violated rule; undefined for a valid profile.
 */
export function createInstructionsCheck(
  contextTokens: number,
): (profile: Profile) => string | undefined {
  const maxTokens = contextTokens - 2 * getMinAnswerTokens(contextTokens);
  return (profile) => {
    const tools = toDefinitions(selectTools(profile, { hasFiles: true }));
    const tokens = estimateRequest({ system: profile.system, messages: [], tools });
    if (tokens <= maxTokens) return undefined;
    return `system and tools are about ${tokens} tokens, and MODEL_CONTEXT_TOKENS leaves them ${maxTokens}: shorten system or list fewer tools, or raise MODEL_CONTEXT_TOKENS where the model's server takes more`;
  };
}
