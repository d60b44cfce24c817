import type { ToolDefinition } from '@oselya/model';
import { mostAnswerTokens } from '../config.ts';
import type { FileInfo } from '../files/files.ts';
import type { KnownFact } from '../memory/memory.ts';
import type { Message } from '../sessions/index.ts';
import { cutToTokens, estimateRequest, estimateTokens, takeFitting } from './estimate.ts';
import { type AgentRequest, toAgentRequest, tokensOfMessage, tokensOfSummary } from './request.ts';
import { tokensOfPart } from './system-text.ts';

/** How many messages a request may have, short as they may be. */
export const MAX_MESSAGES = 1000;

/**
 * How many of them at most stay as they are when those before them are summarized: where it is their number that has no
 * room, the next answers would each begin with a summary otherwise.
 */
export const MAX_RECENT = MAX_MESSAGES / 2;

/** What a model is sent of a conversation: instructions, what is known of the user, and what was said. */
export type Context = {
  system: string;
  /** What is known of the user in a few sentences; empty where nothing is. */
  about: string;
  /** The most recently written first. */
  memory: KnownFact[];
  /** The files of the session that are named, the latest first, and how many others it has. */
  files: NamedFile[];
  filesLeftOut: number;
  /** What was said before the messages; null where nothing was summarized. */
  summary: string | null;
  /** In the order of the conversation. */
  messages: SaidMessage[];
};

/** A file as far as a model is told of it. */
export type NamedFile = Pick<FileInfo, 'name' | 'media_type' | 'size_bytes'>;

/** A message as far as it is sent to a model. */
export type SaidMessage = Pick<Message, 'role' | 'content' | 'tool_calls'> &
  Partial<Pick<Message, 'kept' | 'unasked'>>;

/** A stored message with what models are told of it as its content. */
export function asTold<Said extends SaidMessage>(message: Said): Said {
  return { ...message, content: message.kept ?? message.content };
}

/**
 * How a model's window is shared out, in tokens. What the request leaves is for what tools give, and for the answer.
 * Where instructions and tools take more than a fifth of the window, all else has its share of what they leave.
 * @param contextTokens The window: MODEL_CONTEXT_TOKENS.
 * @param fixed What instructions and tools take of it.
 */
export function sharesOf(contextTokens: number, fixed: number) {
  const free = Math.max(0, contextTokens - fixed);
  const base = Math.min(contextTokens, free * 1.25);
  return {
    /** Of what is sent first. Beyond it earlier messages are summarized. */
    request: Math.max(
      contextTokens - mostAnswerTokens(contextTokens),
      contextTokens - Math.ceil(free / 2),
    ),
    /** Of the facts, which must leave room for the conversation. */
    memory: Math.floor(base / 8),
    /** Of the text about the user. */
    about: Math.floor(base / 16),
    /** Of the names of files. */
    files: Math.floor(base / 16),
    /** Of the messages that stay as they are when those before them are summarized. */
    recent: Math.floor(base / 4),
    /** Of the summary: of what a model writes in half as many tokens, which it may count in longer ones. */
    summary: Math.floor(base / 8),
  };
}

/** What a request is chosen from. */
type Choice<Remembered extends KnownFact, Named extends NamedFile, Said extends SaidMessage> = {
  system: string;
  about: string;
  facts: readonly Remembered[];
  files: readonly Named[];
  summary: string | null;
  messages: readonly Said[];
  tools: readonly ToolDefinition[];
  modelName: string;
  now: Date;
  contextTokens: number;
};

/**
 * What the model would be sent now: the instructions, then as much of what is known of the user and the session, and
 * as many of the latest messages, as there is room for beside the question. Facts, files and messages beyond that are
 * left out whole, the oldest of them first; a question that is the last message always goes. Contract 3, Answers.
 * @param choice.about What is known of the user in a few sentences, of which the beginning is sent.
 * @param choice.facts The most recently written first.
 * @param choice.files The latest first.
 * @param choice.summary What was said before all of the messages.
 * @param choice.messages The newest first.
 * @param choice.modelName Empty for the configured one.
 * @param choice.contextTokens The model's window.
 * @returns With how many tokens the request is about, how many of the messages stay as they are where those before
 *   them have to be summarized, and how many tokens that summary may be.
 */
export function buildContext<
  Remembered extends KnownFact,
  Named extends NamedFile,
  Said extends SaidMessage,
>({
  system,
  about,
  facts,
  files,
  summary,
  messages,
  tools,
  modelName,
  now,
  contextTokens,
}: Choice<Remembered, Named, Said>): {
  context: Context & { memory: Remembered[]; messages: Said[] };
  request: AgentRequest;
  tokenEstimate: number;
  recentCount: number;
  summaryTokens: number;
} {
  const write = (context: Context) =>
    toAgentRequest({ context, profile: { model: modelName }, tools, now });
  // That there are files is always said.
  const bare = { ...NOTHING, system, filesLeftOut: files.length };
  const fixed = estimateRequest(write(bare));
  const shares = sharesOf(contextTokens, fixed);
  const [last] = messages;
  const question = last?.role === 'user' ? last : undefined;

  const asked = question === undefined ? 0 : tokensOfMessage(question);
  let room = shares.request - fixed - asked;
  const known = chooseKnown({ about, summary, files, facts }, { shares, room });
  room -= known.tokens;

  const earlier = question === undefined ? messages : messages.slice(1);
  const latest = takeFitting(earlier, tokensOfMessage, room);
  const said = question === undefined ? latest.items : [question, ...latest.items];
  const context = { system, ...known.chosen, messages: said.toReversed() };
  const request = write(context);
  // By then the summary may be as long as its share.
  const besideSummary = room + asked + known.summaryTokens - shares.summary;
  return {
    context,
    request,
    tokenEstimate: estimateRequest(request),
    recentCount: countRecent(messages.slice(0, MAX_RECENT), Math.min(shares.recent, besideSummary)),
    summaryTokens: Math.max(1, shares.summary - tokensOfSummary('.')),
  };
}

const NOTHING: Omit<Context, 'system' | 'filesLeftOut'> = {
  about: '',
  memory: [],
  files: [],
  summary: null,
  messages: [],
};

/** What is known of the user and the session, as far as there is room for it: each part has its share at most. */
function chooseKnown<Remembered extends KnownFact, Named extends NamedFile>(
  {
    about,
    summary,
    files,
    facts,
  }: Pick<Choice<Remembered, Named, never>, 'about' | 'summary' | 'files' | 'facts'>,
  { shares, room }: { shares: ReturnType<typeof sharesOf>; room: number },
) {
  let tokens = 0;
  /** As much as there is of a share. */
  const within = (share: number) => Math.max(0, Math.min(share, room - tokens));

  const known = cutToFit(about, within(shares.about), tokensOfPart.about);
  tokens += tokensOfPart.about(known);
  const before = summary && cutToFit(summary, within(shares.summary), tokensOfSummary);
  const summaryTokens = tokensOfSummary(before ?? '');
  tokens += summaryTokens;
  const named = takeFitting(files, tokensOfPart.file, within(shares.files));
  tokens += named.tokens;
  const heading = tokensOfPart.factsHeading;
  const remembered = takeFitting(facts, tokensOfPart.fact, within(shares.memory) - heading);
  if (remembered.items.length > 0) tokens += heading + remembered.tokens;
  const chosen = {
    about: known,
    summary: before,
    files: named.items,
    filesLeftOut: files.length - named.items.length,
    memory: remembered.items,
  };
  return { chosen, tokens, summaryTokens };
}

/** The beginning of a text that takes no more room than there is, as it is written down. */
function cutToFit(text: string, room: number, tokensOfText: (text: string) => number): string {
  let cut = cutToTokens(text, room);
  for (;;) {
    const excess = tokensOfText(cut) - room;
    if (cut === '' || excess <= 0) return cut;
    cut = cutToTokens(cut, estimateTokens(cut) - excess);
  }
}

/**
 * How many of the latest messages stay as they are when those before them are summarized: as many as have room,
 * from a question on, so that no answer stands without the question before it. The last question always stays. A
 * message has the tools of its answer with it, and is never parted from them.
 * @param messages The newest first.
 */
export function countRecent(messages: readonly SaidMessage[], room: number): number {
  const isQuestion = ({ role }: SaidMessage) => role === 'user';
  const { items } = takeFitting(messages, tokensOfMessage, room);
  return Math.max(items.findLastIndex(isQuestion), messages.findIndex(isQuestion)) + 1;
}
