import type { ChatMessage, ChatRequest } from '@oselya/model';
import { cutToBytes } from '../text.ts';

/** Letters that models make one token of: four Latin ones or two Cyrillic ones, which are four bytes either way. */
const TOKEN_BYTES = 4;

/** What templates put around a message, and around the call of a tool. */
const MARK_TOKENS = 4;

/** About how many tokens a text is. ADR 0023. */
export function estimateTokens(text: string): number {
  return Math.ceil(Buffer.byteLength(text) / TOKEN_BYTES);
}

/** How much text so many tokens are about, in bytes. */
export const bytesOf = (tokens: number) => tokens * TOKEN_BYTES;

/** The beginning of a text that is about so many tokens; empty where there is room for none. */
export function cutToTokens(text: string, tokens: number): string {
  return cutToBytes(text, bytesOf(tokens));
}

/** About how many tokens a message is within a request. */
export function tokensOf(message: ChatMessage): number {
  const said = MARK_TOKENS + estimateTokens(message.content);
  if (message.role === 'tool') {
    return said + estimateTokens(`${message.toolCallId} ${message.toolName}`);
  }
  if (message.role === 'user') return said;
  const calls = (message.toolCalls ?? []).map(
    ({ id, name, input }) =>
      MARK_TOKENS + estimateTokens(`${id} ${name} ${JSON.stringify(input) ?? ''}`),
  );
  return sum([said, ...calls]);
}

/**
 * About how many tokens a request is, with all that goes along: what is sent of a conversation, and what is said of
 * that, is measured by this alone.
 */
export function estimateRequest({
  system,
  messages,
  tools = [],
}: Pick<ChatRequest, 'system' | 'messages' | 'tools'>): number {
  const offered = tools.length === 0 ? 0 : estimateTokens(JSON.stringify(tools));
  return sum([MARK_TOKENS, estimateTokens(system), offered, ...messages.map(tokensOf)]);
}

/** The first items, until one has no room. */
export function takeFitting<Item>(
  items: readonly Item[],
  tokensOfItem: (item: Item) => number,
  room: number,
): { items: Item[]; tokens: number } {
  let tokens = 0;
  const end = items.findIndex((item) => {
    const more = tokensOfItem(item);
    if (tokens + more > room) return true;
    tokens += more;
    return false;
  });
  return { items: items.slice(0, end === -1 ? undefined : end), tokens };
}

/** All together. */
export const sum = (numbers: readonly number[]) => numbers.reduce((all, one) => all + one, 0);
