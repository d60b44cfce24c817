import type { ProblemError } from '@oselya/kit';
import type { ChatMessage, ChatRequest } from '@oselya/model';
import { computeMaxAnswerTokens } from '../../config.ts';
import { problem } from '../../errors.ts';
import type { Profile } from '../../profiles/profile-file.ts';
import { cutToBytes } from '../../text.ts';
import { toDefinitions, selectTools } from '../tools/tools.ts';

/** Estimated size of a token: four Latin or two Cyrillic letters. ADR 0023. */
const TOKEN_BYTES = 4;

/** Number of tokens that chat templates add to each message and to each tool call. */
const TEMPLATE_TOKENS = 4;

/** Maximum share of the context window that is reserved for the answer while tools run. */
const ANSWER_SHARE = 1 / 4;

/** Minimum share of the context window for an answer. A question that leaves less is rejected. */
const MIN_ANSWER_SHARE = 1 / 16;

/** Estimates the tokens of a text. */
export function estimateTokens(text: string): number {
  return Math.ceil(Buffer.byteLength(text) / TOKEN_BYTES);
}

/** Converts tokens to estimated bytes. */
export const tokensToBytes = (tokens: number) => tokens * TOKEN_BYTES;

/** Cuts a text to a number of estimated tokens. */
export function cutToTokens(text: string, tokens: number): string {
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

/** Estimates the tokens of messages in a request. */
export const estimateMessagesTokens = (messages: readonly ChatMessage[]): number =>
  messages.reduce((sum, message) => sum + estimateMessageTokens(message), 0);

type CountedRequest = Pick<ChatRequest, 'system' | 'messages' | 'tools'>;

/** Estimates the tokens of a request. All decisions about the context window use this estimate. */
export function estimateRequest({ system, messages, tools = [] }: CountedRequest): number {
  const definitions = tools.length === 0 ? 0 : estimateTokens(JSON.stringify(tools));
  return TEMPLATE_TOKENS + estimateTokens(system) + definitions + estimateMessagesTokens(messages);
}

/** Returns the longest prefix of items that fits into a number of tokens, and its size in tokens. */
export function takeFitting<Item>(
  items: readonly Item[],
  estimateItem: (item: Item) => number,
  room: number,
): { items: Item[]; tokens: number } {
  let tokens = 0;
  const taken: Item[] = [];
  for (const item of items) {
    const next = tokens + estimateItem(item);
    if (next > room) break;
    tokens = next;
    taken.push(item);
  }
  return { items: taken, tokens };
}

/**
 * Divides a context window into shares, in tokens. The rest after the first request is for tool output and the answer.
 * @param fixed Tokens of instructions and tools. If they exceed a fifth of the window, all shares shrink.
 */
export function divideWindow(contextTokens: number, fixed: number) {
  const free = Math.max(0, contextTokens - fixed);
  const base = Math.min(contextTokens, free * 1.25);
  return {
    /** Maximum size of the first request. Earlier messages are summarized if they do not fit. */
    request: contextTokens - Math.min(computeMaxAnswerTokens(contextTokens), Math.ceil(free / 2)),
    facts: Math.floor(base / 8),
    about: Math.floor(base / 16),
    files: Math.floor(base / 16),
    recent: Math.floor(base / 4),
    summary: Math.floor(base / 8),
  };
}

const minAnswerTokens = (contextTokens: number): number =>
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
  const roomBeside = (next: CountedRequest) => contextTokens - estimateRequest(next);
  const first = roomBeside(request);
  const min = Math.min(outputTokens, minAnswerTokens(contextTokens));
  if (first < min) throw messageTooLong(request.messages, first - min);
  const answerTokens = Math.floor(Math.min(contextTokens * ANSWER_SHARE, first / 2));

  return {
    /** Returns the tokens that remain for the completion of a request. Zero or less means none. */
    roomBeside,

    /** Returns the tokens that remain for the output of a tool. The messages include its empty result. */
    roomForTool: (messages: readonly ChatMessage[], tokensLeft: number): number =>
      roomBeside({ ...request, messages }) - Math.min(tokensLeft, answerTokens),
  };
}

function messageTooLong(messages: readonly ChatMessage[], roomLeft: number): ProblemError {
  const size = estimateMessagesTokens(messages.slice(-1));
  return problem('message_too_long', {
    detail: `It is about ${size} tokens long, and there is room for ${Math.max(0, size + roomLeft)}. Send it in parts, or attach it as a text file and ask about that.`,
  });
}

/**
 * Creates a check that a profile's instructions and tools leave room for a question and its answer.
 * @returns A function that returns the violated rule; undefined for a valid profile.
 */
export function createInstructionsCheck(
  contextTokens: number,
): (profile: Profile) => string | undefined {
  const max = contextTokens - 2 * minAnswerTokens(contextTokens);
  return (profile) => {
    const tools = toDefinitions(selectTools(profile, { hasFiles: true }));
    const tokens = estimateRequest({ system: profile.system, messages: [], tools });
    if (tokens <= max) return undefined;
    return `system and tools are about ${tokens} tokens, and MODEL_CONTEXT_TOKENS leaves them ${max}: shorten system or list fewer tools, or raise MODEL_CONTEXT_TOKENS where the model's server takes more`;
  };
}
