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
  truncateToTokens,
  divideWindow,
  estimateRequest,
  estimateTokens,
  takeFitting,
} from './window.ts';

const MAX_REQUEST_MESSAGES = 1000;

/** Maximum number of unsummarized messages after a summary. Half of the request limit makes summaries rare. */
const MAX_RECENT_MESSAGES = MAX_REQUEST_MESSAGES / 2;

/** Dependencies for building a request. */
export type RequestDeps = {
  db: Kysely<Tables>;
  services: ToolServices;
  contextTokens: number;
};

/**
 * Builds the next model request of a session.
 * @param session.owner Session owner. The request includes their memory if they have permission to read it.
 * @param session.profile Agent profile; undefined if the owner may use none.
 * @param session.isAnswering Whether to omit the messages after the last question, such as the answer to replace.
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
  const [userSummary, facts, summary, files] = await Promise.all([
    hasMemory ? memory.readSummary(owner.id) : '',
    hasMemory ? memory.listLatestFacts(owner.id) : [],
    findConversationSummary(db, { sessionId, scope }),
    listFiles(db, { sessionId, scope, limit: MAX_FILES }),
  ]);
  const after = summary?.lastPosition;
  // The extra message shows whether older messages exist.
  const pageQuery = { sessionId, scope, after, limit: MAX_REQUEST_MESSAGES + 1 };
  const storedMessages = (await listMessages(db, pageQuery)).map(toModelText);
  const questionIndex = storedMessages.slice(0, MAX_REQUEST_MESSAGES).findIndex(isQuestion);
  const messages = storedMessages.slice(isAnswering ? Math.max(0, questionIndex) : 0);
  const selectedTools =
    profile === undefined ? [] : selectTools(profile, { hasFiles: files.length > 0 });
  const { context, request, tokenEstimate, recentCount, summaryTokens } = buildContext({
    system: profile?.system ?? '',
    userSummary,
    facts,
    files: files.toSorted((one, other) => other.updated_at.getTime() - one.updated_at.getTime()),
    summary: summary?.text ?? null,
    messages: messages.slice(0, MAX_REQUEST_MESSAGES),
    tools: toDefinitions(selectedTools),
    modelName: profile?.model ?? '',
    now: new Date(),
    contextTokens,
  });
  const omittedCount = messages.length - context.messages.length;
  const lastPosition = omittedCount === 0 ? undefined : messages[recentCount]?.position;
  const earlierMessages = lastPosition && {
    sessionId,
    scope,
    summary,
    lastPosition,
    summaryTokens,
  };
  return {
    context,
    request,
    tokenEstimate,
    tools: selectedTools,
    summary,
    earlierMessages,
    omittedCount,
  };
}

/** The content to select from. Facts, files and messages are sorted latest first. */
type RequestSources<Fact extends KnownFact, Stored extends StoredMessage> = Pick<
  RequestContext,
  'system' | 'userSummary' | 'summary'
> &
  RequestOptions & {
    facts: readonly Fact[];
    files: readonly FileDescription[];
    messages: readonly Stored[];
    contextTokens: number;
  };

/**
 * Selects the content of a request: the instructions, the question, and the latest messages that fit. User and session
 * data get fixed shares of the window. ADR 0028.
 * @returns The context, the request with its size, the number of messages that a summary would leave, and the maximum
 *   number of summary tokens.
 */
export function buildContext<Fact extends KnownFact, Stored extends StoredMessage>({
  system,
  userSummary,
  facts,
  files,
  summary,
  messages,
  contextTokens,
  ...options
}: RequestSources<Fact, Stored>) {
  const emptyContext = { userSummary: '', memory: [], files: [], summary: null, messages: [] };
  const fixedTokens = estimateRequest(
    toAgentRequest({ ...emptyContext, system, omittedFileCount: files.length }, options),
  );
  const shares = divideWindow(contextTokens, fixedTokens);
  const [lastMessage] = messages;
  const question = lastMessage?.role === 'user' ? lastMessage : undefined;
  const questionTokens = question === undefined ? 0 : estimatePartTokens.message(question);
  let room = shares.request - fixedTokens - questionTokens;
  const limitToRoom = (share: number) => Math.max(0, Math.min(share, room));

  const fittingUserSummary = truncateToFit(
    userSummary,
    limitToRoom(shares.userSummary),
    estimatePartTokens.userSummary,
  );
  room -= estimatePartTokens.userSummary(fittingUserSummary);
  const fittingSummary =
    summary && truncateToFit(summary, limitToRoom(shares.summary), estimatePartTokens.summary);
  const sentSummaryTokens = estimatePartTokens.summary(fittingSummary ?? '');
  room -= sentSummaryTokens;
  const fittingFiles = takeFitting(files, estimatePartTokens.file, limitToRoom(shares.files));
  room -= fittingFiles.tokens;
  const headingTokens = estimatePartTokens.factsHeading;
  const factsRoom = limitToRoom(shares.facts) - headingTokens;
  const fittingFacts = takeFitting(facts, estimatePartTokens.fact, factsRoom);
  if (fittingFacts.items.length > 0) room -= headingTokens + fittingFacts.tokens;

  const earlierMessages = question === undefined ? messages : messages.slice(1);
  const latestMessages = takeFitting(earlierMessages, estimatePartTokens.message, room).items;
  const context = {
    system,
    userSummary: fittingUserSummary,
    memory: fittingFacts.items,
    files: fittingFiles.items,
    omittedFileCount: files.length - fittingFiles.items.length,
    summary: fittingSummary,
    messages: (question === undefined
      ? latestMessages
      : [question, ...latestMessages]
    ).toReversed(),
  };
  const request = toAgentRequest(context, options);
  // Reserve the full share for the next summary.
  const roomBesideSummary = room + questionTokens + sentSummaryTokens - shares.summary;
  const recentMessages = messages.slice(0, MAX_RECENT_MESSAGES);
  return {
    context,
    request,
    tokenEstimate: estimateRequest(request),
    recentCount: countRecent(recentMessages, Math.min(shares.recent, roomBesideSummary)),
    summaryTokens: Math.max(1, shares.summary - estimatePartTokens.summary('.')),
  };
}

/** Truncates text so that its formatted form fits into a token budget. */
function truncateToFit(
  text: string,
  room: number,
  estimateTextTokens: (text: string) => number,
): string {
  let truncatedText = truncateToTokens(text, room);
  for (;;) {
    const excess = estimateTextTokens(truncatedText) - room;
    if (truncatedText === '' || excess <= 0) return truncatedText;
    truncatedText = truncateToTokens(truncatedText, estimateTokens(truncatedText) - excess);
  }
}

const isQuestion = ({ role }: StoredMessage) => role === 'user';

/** Counts the latest messages that stay unsummarized. They begin with a question and include the last question. */
function countRecent(messages: readonly StoredMessage[], room: number): number {
  const { items } = takeFitting(messages, estimatePartTokens.message, room);
  return Math.max(items.findLastIndex(isQuestion), messages.findIndex(isQuestion)) + 1;
}
