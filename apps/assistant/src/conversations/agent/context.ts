import type { ToolDefinition } from '@oselya/model';
import type { Kysely } from 'kysely';
import { type AccessScope, hasPermission, type User } from '../../access/permissions.ts';
import { listFiles, MAX_FILES } from '../../files/files.ts';
import type { KnownFact } from '../../memory/memory.ts';
import type { Profile } from '../../profiles/profile-file.ts';
import { listMessages } from '../messages.ts';
import type { Tables } from '../../tables.ts';
import type { ToolServices } from '../tools/tool.ts';
import { toDefinitions, selectTools } from '../tools/tools.ts';
import {
  type AgentRequest,
  type Context,
  toModelText,
  type NamedFile,
  type StoredMessage,
  toAgentRequest,
  estimatePartTokens,
} from './request.ts';
import { type EarlierMessages, findConversationSummary } from './summaries.ts';
import {
  cutToTokens,
  divideWindow,
  estimateRequest,
  estimateTokens,
  takeFitting,
} from './window.ts';

/** Maximum number of messages in a request. */
export const MAX_MESSAGES = 1000;

/** Maximum number of messages that a new summary leaves: less, so that not every answer begins with a summary. */
export const MAX_RECENT = MAX_MESSAGES / 2;

/** The sources of a request. */
export type RequestDeps = {
  db: Kysely<Tables>;
  services: ToolServices;
  /** MODEL_CONTEXT_TOKENS */
  contextTokens: number;
};

/**
 * Builds the model's next request for a session.
 * @param session.owner The user whose memory is included if they may see it themselves; null for a session without owner.
 * @param session.profile Undefined if there is none that the owner may use.
 * @param session.isAnswering Whether the last question is answered now: an answer after it will be replaced.
 * @returns The request and what it was built from, the tools, and the messages to summarize first if not all fit.
 */
export async function loadRequest(
  { db, services: { memory }, contextTokens }: RequestDeps,
  {
    sessionId,
    scope,
    owner,
    profile,
    isAnswering,
  }: {
    sessionId: string;
    scope: AccessScope;
    owner: Pick<User, 'id' | 'role' | 'permissions'> | null;
    profile: Profile | undefined;
    isAnswering: boolean;
  },
) {
  const isRemembered = owner !== null && hasPermission(owner, 'svc.memory.read_own');
  const [about, facts, summary, files] = await Promise.all([
    isRemembered ? memory.summaryOf(owner.id) : '',
    isRemembered ? memory.latestFacts(owner.id) : [],
    findConversationSummary(db, { sessionId, scope }),
    listFiles(db, { sessionId, scope, limit: MAX_FILES }),
  ]);
  const after = summary?.through;
  // One more than fits says that there are others before.
  const limit = MAX_MESSAGES + 1;
  const stored = (await listMessages(db, { sessionId, scope, after, limit })).map(toModelText);
  const question = stored.slice(0, MAX_MESSAGES).findIndex(isQuestion);
  const messages = stored.slice(isAnswering ? Math.max(0, question) : 0);
  const tools = profile === undefined ? [] : selectTools(profile, { hasFiles: files.length > 0 });
  const { context, request, tokenEstimate, recentCount, summaryTokens } = buildContext({
    system: profile?.system ?? '',
    about,
    facts,
    files: files.toSorted((one, other) => other.updated_at.getTime() - one.updated_at.getTime()),
    summary: summary?.text ?? null,
    messages: messages.slice(0, MAX_MESSAGES),
    tools: toDefinitions(tools),
    modelName: profile?.model ?? '',
    now: new Date(),
    contextTokens,
  });
  const leftOut = messages.length - context.messages.length;
  const upTo = leftOut === 0 ? undefined : messages[recentCount]?.position;
  const earlier: EarlierMessages | undefined = upTo && {
    sessionId,
    scope,
    summary,
    upTo,
    summaryTokens,
  };
  return { context, request, tokenEstimate, tools, summary, earlier, leftOut };
}

/** The parts of a request. */
type Sources<Fact extends KnownFact, File extends NamedFile, Stored extends StoredMessage> = {
  system: string;
  about: string;
  /** The most recently written first. */
  facts: readonly Fact[];
  /** Latest first. */
  files: readonly File[];
  /** Of what was said before all messages. */
  summary: string | null;
  /** Newest first. */
  messages: readonly Stored[];
  tools: readonly ToolDefinition[];
  /** Empty for the configured model. */
  modelName: string;
  now: Date;
  contextTokens: number;
};

/**
 * Chooses what fits into a request: the instructions, the question, then what is known of the user and the session by
 * shares of the window, then the latest messages. Contract 3, Answers.
 * @returns The request; how many of the latest messages stay when those before them are summarized; and the maximum
 *   tokens of that summary.
 */
export function buildContext<
  Fact extends KnownFact,
  File extends NamedFile,
  Stored extends StoredMessage,
>({
  system,
  about,
  facts,
  files,
  summary,
  messages,
  contextTokens,
  ...options
}: Sources<Fact, File, Stored>): {
  context: Context & { memory: Fact[]; messages: Stored[] };
  request: AgentRequest;
  tokenEstimate: number;
  recentCount: number;
  summaryTokens: number;
} {
  const nothing = { about: '', memory: [], files: [], summary: null, messages: [] };
  const fixed = estimateRequest(
    toAgentRequest({ ...nothing, system, filesLeftOut: files.length }, options),
  );
  const shares = divideWindow(contextTokens, fixed);
  const [last] = messages;
  const question = last?.role === 'user' ? last : undefined;
  const questionTokens = question === undefined ? 0 : estimatePartTokens.message(question);
  let room = shares.request - fixed - questionTokens;
  const within = (share: number) => Math.max(0, Math.min(share, room));

  const knownAbout = cutToFit(about, within(shares.about), estimatePartTokens.about);
  room -= estimatePartTokens.about(knownAbout);
  const before = summary && cutToFit(summary, within(shares.summary), estimatePartTokens.summary);
  const beforeTokens = estimatePartTokens.summary(before ?? '');
  room -= beforeTokens;
  const named = takeFitting(files, estimatePartTokens.file, within(shares.files));
  room -= named.tokens;
  const heading = estimatePartTokens.factsHeading;
  const known = takeFitting(facts, estimatePartTokens.fact, within(shares.facts) - heading);
  if (known.items.length > 0) room -= heading + known.tokens;

  const earlier = question === undefined ? messages : messages.slice(1);
  const latest = takeFitting(earlier, estimatePartTokens.message, room).items;
  const context = {
    system,
    about: knownAbout,
    memory: known.items,
    files: named.items,
    filesLeftOut: files.length - named.items.length,
    summary: before,
    messages: (question === undefined ? latest : [question, ...latest]).toReversed(),
  };
  const request = toAgentRequest(context, options);
  // The next summary may be as long as its share.
  const besideSummary = room + questionTokens + beforeTokens - shares.summary;
  return {
    context,
    request,
    tokenEstimate: estimateRequest(request),
    recentCount: countRecent(messages.slice(0, MAX_RECENT), Math.min(shares.recent, besideSummary)),
    summaryTokens: Math.max(1, shares.summary - estimatePartTokens.summary('.')),
  };
}

/** Cuts a text until it fits as it is written in the request. */
function cutToFit(text: string, room: number, tokensOfText: (text: string) => number): string {
  let cut = cutToTokens(text, room);
  for (;;) {
    const excess = tokensOfText(cut) - room;
    if (cut === '' || excess <= 0) return cut;
    cut = cutToTokens(cut, estimateTokens(cut) - excess);
  }
}

const isQuestion = ({ role }: StoredMessage) => role === 'user';

/**
 * Counts the latest messages that stay when those before them are summarized: as many as fit, from a question on. The
 * last question always stays.
 * @param messages Newest first.
 */
export function countRecent(messages: readonly StoredMessage[], room: number): number {
  const { items } = takeFitting(messages, estimatePartTokens.message, room);
  return Math.max(items.findLastIndex(isQuestion), messages.findIndex(isQuestion)) + 1;
}
