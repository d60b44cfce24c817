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
  type RequestContext,
  estimatePartTokens,
  type FileDescription,
  type RequestOptions,
  type StoredMessage,
  toAgentRequest,
  toModelText,
} from './request.ts';
import { findConversationSummary } from './summaries.ts';
import {
  cutToTokens,
  divideWindow,
  estimateRequest,
  estimateTokens,
  takeFitting,
} from './window.ts';

const MAX_REQUEST_MESSAGES = 1000;

/** Maximum number of messages that stay after a summary. The gap to the maximum makes summaries rare. */
const MAX_RECENT_MESSAGES = MAX_REQUEST_MESSAGES / 2;

/** Dependencies for building a request. */
export type RequestDeps = {
  db: Kysely<Tables>;
  services: ToolServices;
  contextTokens: number;
};

/**
 * Builds the next model request of a session.
 * @param session.owner Owner of the session. The request includes their memory if they have permission to read it.
 * @param session.profile Profile of the agent; undefined if the owner may use none.
 * @param session.isAnswering Whether to leave out messages after the last question, which the new answer replaces.
 * @returns The request, its context and tools, and the earlier messages to summarize if not all messages fit.
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
  const hasMemory = owner !== null && hasPermission(owner, 'svc.memory.read_own');
  const [about, facts, summary, files] = await Promise.all([
    hasMemory ? memory.readSummary(owner.id) : '',
    hasMemory ? memory.listLatestFacts(owner.id) : [],
    findConversationSummary(db, { sessionId, scope }),
    listFiles(db, { sessionId, scope, limit: MAX_FILES }),
  ]);
  const after = summary?.through;
  // One extra message shows whether older messages exist.
  const limit = MAX_REQUEST_MESSAGES + 1;
  const stored = (await listMessages(db, { sessionId, scope, after, limit })).map(toModelText);
  const question = stored.slice(0, MAX_REQUEST_MESSAGES).findIndex(isQuestion);
  const messages = stored.slice(isAnswering ? Math.max(0, question) : 0);
  const tools = profile === undefined ? [] : selectTools(profile, { hasFiles: files.length > 0 });
  const { context, request, tokenEstimate, recentCount, summaryTokens } = buildContext({
    system: profile?.system ?? '',
    about,
    facts,
    files: files.toSorted((one, other) => other.updated_at.getTime() - one.updated_at.getTime()),
    summary: summary?.text ?? null,
    messages: messages.slice(0, MAX_REQUEST_MESSAGES),
    tools: toDefinitions(tools),
    modelName: profile?.model ?? '',
    now: new Date(),
    contextTokens,
  });
  const leftOut = messages.length - context.messages.length;
  const upTo = leftOut === 0 ? undefined : messages[recentCount]?.position;
  const earlier = upTo && { sessionId, scope, summary, upTo, summaryTokens };
  return { context, request, tokenEstimate, tools, summary, earlier, leftOut };
}

/** The source data of a request. Facts, files and messages are sorted latest first. */
type RequestSources<Fact extends KnownFact, Stored extends StoredMessage> = Pick<
  RequestContext,
  'system' | 'about' | 'summary'
> &
  RequestOptions & {
    facts: readonly Fact[];
    files: readonly FileDescription[];
    messages: readonly Stored[];
    contextTokens: number;
  };

/**
 * Selects the content of a request: the instructions, the question, user and session data within their shares of the
 * window, and the latest messages that fit. Contract 3, Answers.
 * @returns The request; the number of latest messages that a summary would leave; and the maximum tokens of a summary.
 */
export function buildContext<Fact extends KnownFact, Stored extends StoredMessage>({
  system,
  about,
  facts,
  files,
  summary,
  messages,
  contextTokens,
  ...options
}: RequestSources<Fact, Stored>) {
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

  const fittingAbout = cutToFit(about, within(shares.about), estimatePartTokens.about);
  room -= estimatePartTokens.about(fittingAbout);
  const fittingSummary =
    summary && cutToFit(summary, within(shares.summary), estimatePartTokens.summary);
  const sentSummaryTokens = estimatePartTokens.summary(fittingSummary ?? '');
  room -= sentSummaryTokens;
  const fittingFiles = takeFitting(files, estimatePartTokens.file, within(shares.files));
  room -= fittingFiles.tokens;
  const heading = estimatePartTokens.factsHeading;
  const fittingFacts = takeFitting(facts, estimatePartTokens.fact, within(shares.facts) - heading);
  if (fittingFacts.items.length > 0) room -= heading + fittingFacts.tokens;

  const earlier = question === undefined ? messages : messages.slice(1);
  const latest = takeFitting(earlier, estimatePartTokens.message, room).items;
  const context = {
    system,
    about: fittingAbout,
    memory: fittingFacts.items,
    files: fittingFiles.items,
    filesLeftOut: files.length - fittingFiles.items.length,
    summary: fittingSummary,
    messages: (question === undefined ? latest : [question, ...latest]).toReversed(),
  };
  const request = toAgentRequest(context, options);
  // Reserve the full share for the next summary.
  const besideSummary = room + questionTokens + sentSummaryTokens - shares.summary;
  const recent = messages.slice(0, MAX_RECENT_MESSAGES);
  return {
    context,
    request,
    tokenEstimate: estimateRequest(request),
    recentCount: countRecent(recent, Math.min(shares.recent, besideSummary)),
    summaryTokens: Math.max(1, shares.summary - estimatePartTokens.summary('.')),
  };
}

/** Cuts a text until its formatted form fits into the room. */
function cutToFit(text: string, room: number, tokensOfText: (text: string) => number): string {
  let cut = cutToTokens(text, room);
  for (;;) {
    const excess = tokensOfText(cut) - room;
    if (cut === '' || excess <= 0) return cut;
    cut = cutToTokens(cut, estimateTokens(cut) - excess);
  }
}

const isQuestion = ({ role }: StoredMessage) => role === 'user';

/** Counts the latest messages to keep unsummarized. They begin with a question and always include the last one. */
function countRecent(messages: readonly StoredMessage[], room: number): number {
  const { items } = takeFitting(messages, estimatePartTokens.message, room);
  return Math.max(items.findLastIndex(isQuestion), messages.findIndex(isQuestion)) + 1;
}
