import type { ProblemError } from '@oselya/kit';
import type { ChatMessage, ChatRequest } from '@oselya/model';
import { maxAnswerTokens } from '../../config.ts';
import { problem } from '../../errors.ts';
import type { Profile } from '../../profiles/profile-file.ts';
import { cutToBytes } from '../../text.ts';
import { toDefinitions, selectTools } from '../tools/tools.ts';

/** Bytes of a token: four Latin letters or two Cyrillic ones. ADR 0023. */
const TOKEN_BYTES = 4;

/** Tokens that chat templates put around a message, and around the call of a tool. */
const TEMPLATE_TOKENS = 4;

/** Maximum share of the window that tools leave free for the answer. */
const ANSWER_SHARE = 1 / 4;

/** Minimum share of the window for an answer: a question that leaves less is rejected. */
const MIN_ANSWER_SHARE = 1 / 16;

/** Estimates the tokens of a text. */
export function estimateTokens(text: string): number {
  return Math.ceil(Buffer.byteLength(text) / TOKEN_BYTES);
}

/** Converts tokens to bytes of text. */
export const tokensToBytes = (tokens: number) => tokens * TOKEN_BYTES;

/** Cuts a text to a number of estimated tokens. */
export function cutToTokens(text: string, tokens: number): string {
  return cutToBytes(text, tokensToBytes(tokens));
}

/** Estimates the tokens of a message in a request. */
export function estimateMessageTokens(message: ChatMessage): number {
  const own = TEMPLATE_TOKENS + estimateTokens(message.content);
  if (message.role === 'tool') {
    return own + estimateTokens(`${message.toolCallId} ${message.toolName}`);
  }
  if (message.role === 'user') return own;
  const calls = message.toolCalls ?? [];
  return calls.reduce(
    (sum, { id, name, input }) =>
      sum + TEMPLATE_TOKENS + estimateTokens(`${id} ${name} ${JSON.stringify(input) ?? ''}`),
    own,
  );
}

/** Estimates the tokens of messages. */
export const estimateMessagesTokens = (messages: readonly ChatMessage[]): number =>
  messages.reduce((sum, message) => sum + estimateMessageTokens(message), 0);

/** The part of a request that is counted. */
type Counted = Pick<ChatRequest, 'system' | 'messages' | 'tools'>;

/** Estimates the tokens of a whole request. All decisions about the window use this estimate. */
export function estimateRequest({ system, messages, tools = [] }: Counted): number {
  const definitions = tools.length === 0 ? 0 : estimateTokens(JSON.stringify(tools));
  return TEMPLATE_TOKENS + estimateTokens(system) + definitions + estimateMessagesTokens(messages);
}

/** Returns the first items that fit into a number of tokens together, and their tokens. */
export function takeFitting<Item>(
  items: readonly Item[],
  tokensOfItem: (item: Item) => number,
  room: number,
): { items: Item[]; tokens: number } {
  let tokens = 0;
  const taken: Item[] = [];
  for (const item of items) {
    const next = tokens + tokensOfItem(item);
    if (next > room) break;
    tokens = next;
    taken.push(item);
  }
  return { items: taken, tokens };
}

/**
 * Divides a model's window, in tokens. What the first request leaves is for the output of tools and the answer.
 * @param contextTokens MODEL_CONTEXT_TOKENS
 * @param fixed Tokens of instructions and tools. Beyond a fifth of the window they reduce all other shares.
 */
export function divideWindow(contextTokens: number, fixed: number) {
  const free = Math.max(0, contextTokens - fixed);
  const base = Math.min(contextTokens, free * 1.25);
  return {
    /** The first request. Beyond it earlier messages are summarized. */
    request: contextTokens - Math.min(maxAnswerTokens(contextTokens), Math.ceil(free / 2)),
    facts: Math.floor(base / 8),
    /** The text about the user. */
    about: Math.floor(base / 16),
    /** The names of files. */
    files: Math.floor(base / 16),
    /** The messages that are kept when those before them are summarized. */
    recent: Math.floor(base / 4),
    /** The summary. A model is asked for half as many tokens, since it may count longer ones. */
    summary: Math.floor(base / 8),
  };
}

/** Returns the minimum room for an answer, in tokens. */
const minAnswerTokens = (contextTokens: number): number =>
  Math.floor(contextTokens * MIN_ANSWER_SHARE);

/**
 * Returns what fits into the model's window while one answer is made. ADR 0028.
 * @param answer.request The first request.
 * @param answer.outputTokens Maximum length of the answer.
 * @throws ProblemError `message_too_long` if the question leaves no room for an answer.
 */
export function createContextWindow({
  request,
  contextTokens,
  outputTokens,
}: {
  request: Counted;
  contextTokens: number;
  outputTokens: number;
}) {
  const roomBeside = (next: Counted) => contextTokens - estimateRequest(next);
  const first = roomBeside(request);
  const min = Math.min(outputTokens, minAnswerTokens(contextTokens));
  if (first < min) throw messageTooLong(request.messages, first - min);
  const answerTokens = Math.floor(Math.min(contextTokens * ANSWER_SHARE, first / 2));

  return {
    /** Returns the tokens that the model may write to a request; none if less than 1. */
    roomBeside,

    /**
     * Returns the tokens that a tool may output, beside the room for the answer.
     * @param messages With an empty result of the tool, and minimal results of the calls after it.
     * @param tokensLeft Maximum length of the rest of the answer.
     */
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
 * Creates the check that the instructions and tools of a profile leave room for a question and its answer.
 * @param contextTokens MODEL_CONTEXT_TOKENS
 * @returns A function that returns the rule that a profile breaks.
 */
export function checkInstructions(contextTokens: number): (profile: Profile) => string | undefined {
  const max = contextTokens - 2 * minAnswerTokens(contextTokens);
  return (profile) => {
    const tools = toDefinitions(selectTools(profile, { hasFiles: true }));
    const tokens = estimateRequest({ system: profile.system, messages: [], tools });
    if (tokens <= max) return undefined;
    return `system and tools are about ${tokens} tokens, and MODEL_CONTEXT_TOKENS leaves them ${max}: shorten system or list fewer tools, or raise MODEL_CONTEXT_TOKENS where the model's server takes more`;
  };
}
