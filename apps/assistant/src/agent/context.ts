import { cutText } from '../cut-text.ts';
import type { KnownFact } from '../memory/index.ts';
import type { Message } from '../sessions/index.ts';

/** What a model is sent of a conversation: instructions, what is known of the user, and what was said. */
export type Context = {
  system: string;
  /** What is known of the user in a few sentences; empty where nothing is. */
  about: string;
  /** The most recently written first. */
  memory: KnownFact[];
  /** What was said before the messages; null where nothing was summarized. */
  summary: string | null;
  /** In the order of the conversation. */
  messages: SaidMessage[];
  /** About how many tokens all of it is, with the tools that go along. */
  tokenEstimate: number;
};

/** A message as far as it is sent to a model. */
export type SaidMessage = Pick<Message, 'role' | 'content' | 'tool_calls'> &
  Partial<Pick<Message, 'kept'>>;

/** A stored message with what models are told of it as its content. */
export function asTold<Said extends SaidMessage>(message: Said): Said {
  return { ...message, content: message.kept ?? message.content };
}

/**
 * How a model's window is shared out, in tokens. What the request leaves is for what tools give, and for the
 * answer.
 * @param contextTokens The window: MODEL_CONTEXT_TOKENS.
 */
export const sharesOf = (contextTokens: number) => ({
  /** Of what is sent first. Beyond it earlier messages are summarized. */
  request: Math.floor(contextTokens * 0.6),
  /** Of what is known of the user, which must leave room for the conversation. */
  memory: Math.floor(contextTokens / 8),
  /** Of the messages that stay as they are when those before them are summarized. */
  recent: Math.floor(contextTokens / 4),
  /** Of the summary. */
  summary: Math.floor(contextTokens / 16),
});

/**
 * What the model would be sent now: the instructions, then as many of the facts, and as many of the
 * latest messages, as there is room for. Facts and messages beyond that are left out whole, the oldest
 * of them first; the last message always goes. Contract 3, Answers.
 * @param about What is known of the user in a few sentences, of which the beginning is sent.
 * @param facts The most recently written first.
 * @param summary What was said before all of the messages.
 * @param messages The newest first.
 * @param toolTokens About how many tokens the descriptions of the tools are.
 * @param contextTokens The model's window.
 */
export function buildContext<Remembered extends KnownFact, Said extends SaidMessage>({
  system,
  about,
  facts,
  summary,
  messages,
  toolTokens,
  contextTokens,
}: {
  system: string;
  about: string;
  facts: readonly Remembered[];
  summary: string | null;
  messages: readonly Said[];
  toolTokens: number;
  contextTokens: number;
}): Context & { memory: Remembered[]; messages: Said[] } {
  const shares = sharesOf(contextTokens);
  // Two letters a token, where they are Cyrillic.
  const known = cutText(about, shares.memory);
  const texts = [system, known, summary ?? ''];
  const fixed = texts.reduce((tokens, text) => tokens + estimateTokens(text), toolTokens);
  const roomBeside = (tokens: number) => Math.max(0, shares.request - tokens);
  const memory = takeFitting(facts, tokensOfFact, Math.min(shares.memory, roomBeside(fixed)));
  const latest = takeFitting(messages, tokensOfMessage, roomBeside(fixed + memory.tokens));
  const [last] = messages;
  const said =
    latest.items.length === 0 && last !== undefined
      ? { items: [last], tokens: tokensOfMessage(last) }
      : latest;
  return {
    system,
    about: known,
    memory: memory.items,
    summary,
    messages: said.items.toReversed(),
    tokenEstimate: fixed + memory.tokens + said.tokens,
  };
}

/**
 * How many of the latest messages stay as they are when those before them are summarized: as many as have room,
 * from a question on, so that no answer stands without the question before it. The last question always stays. A
 * message has the tools of its answer with it, and is never parted from them.
 * @param messages The newest first.
 */
export function countRecent(messages: readonly SaidMessage[], contextTokens: number): number {
  const isQuestion = ({ role }: SaidMessage) => role === 'user';
  const { items } = takeFitting(messages, tokensOfMessage, sharesOf(contextTokens).recent);
  return Math.max(items.findLastIndex(isQuestion), messages.findIndex(isQuestion)) + 1;
}

/**
 * About how many tokens a text is: models make one of about four Latin letters, or of two Cyrillic
 * ones, which are four bytes either way.
 */
export function estimateTokens(text: string): number {
  return Math.ceil(Buffer.byteLength(text) / 4);
}

const tokensOfFact = ({ category, key, value }: KnownFact) =>
  estimateTokens(`${category} ${key} ${value}`);

const tokensOfMessage = ({ role, content, tool_calls }: SaidMessage) =>
  estimateTokens(`${role} ${content} ${tool_calls === null ? '' : JSON.stringify(tool_calls)}`);

/** The first items, until one has no room. */
export function takeFitting<Item>(
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
