import type { KnownFact } from '../memory/service.ts';
import type { Message } from '../sessions/messages.ts';

/** What a model is sent of a conversation: instructions, what is known of the user, and what was said. */
export type Context = {
  system: string;
  /** The most recently written first. */
  memory: KnownFact[];
  /** In the order of the conversation. */
  messages: Pick<Message, 'role' | 'content' | 'tool_calls'>[];
  /** About how many tokens all of it is. */
  tokenEstimate: number;
};

/** Fits the models that run on one's own machine, with room for tools and an answer. */
export const MAX_CONTEXT_TOKENS = 24_000;

/** What is known of the user must leave room for the conversation. */
const MAX_MEMORY_TOKENS = 4000;

/**
 * What the model would be sent now: the instructions, then as many of the facts, and as many of the
 * latest messages, as there is room for. Facts and messages beyond that are left out whole, the oldest
 * of them first; the last message always goes. Contract 3, Answers.
 * @param facts The most recently written first.
 * @param messages The newest first.
 */
export function buildContext<
  Remembered extends KnownFact,
  SaidMessage extends Context['messages'][number],
>({
  system,
  facts,
  messages,
}: {
  system: string;
  facts: readonly Remembered[];
  messages: readonly SaidMessage[];
}): { system: string; memory: Remembered[]; messages: SaidMessage[]; tokenEstimate: number } {
  const systemTokens = estimateTokens(system);
  const memory = takeFitting(
    facts,
    tokensOfFact,
    Math.min(MAX_MEMORY_TOKENS, roomBeside(systemTokens)),
  );
  const room = roomBeside(systemTokens + memory.tokens);
  const latest = takeFitting(messages, tokensOfMessage, room);
  const [last] = messages;
  const said =
    latest.items.length === 0 && last !== undefined
      ? { items: [last], tokens: tokensOfMessage(last) }
      : latest;
  return {
    system,
    memory: memory.items,
    messages: said.items.toReversed(),
    tokenEstimate: systemTokens + memory.tokens + said.tokens,
  };
}

/**
 * About how many tokens a text is: models make one of about four Latin letters, or of two Cyrillic
 * ones, which are four bytes either way.
 */
export function estimateTokens(text: string): number {
  return Math.ceil(Buffer.byteLength(text) / 4);
}

const roomBeside = (tokens: number) => Math.max(0, MAX_CONTEXT_TOKENS - tokens);

const tokensOfFact = ({ category, key, value }: KnownFact) =>
  estimateTokens(`${category} ${key} ${value}`);

const tokensOfMessage = ({ role, content, tool_calls }: Context['messages'][number]) =>
  estimateTokens(`${role} ${content} ${tool_calls === null ? '' : JSON.stringify(tool_calls)}`);

/** The first items, until one has no room. */
function takeFitting<Item>(
  items: readonly Item[],
  tokensOf: (item: Item) => number,
  room: number,
): { items: Item[]; tokens: number } {
  let tokens = 0;
  const end = items.findIndex((item) => {
    const more = tokensOf(item);
    if (tokens + more > room) return true;
    tokens += more;
    return false;
  });
  return { items: items.slice(0, end === -1 ? undefined : end), tokens };
}
