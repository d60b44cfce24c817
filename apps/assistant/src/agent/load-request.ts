import type { Kysely } from 'kysely';
import type { Reach } from '../access/reach.ts';
import { listFiles, MAX_FILES } from '../files/index.ts';
import type { Memory } from '../memory/index.ts';
import type { Profile } from '../profiles/profile.ts';
import { listMessages } from '../sessions/index.ts';
import type { Tables } from '../tables.ts';
import { toDefinitions, type Tools } from '../tools/tools.ts';
import { asTold, buildContext, countRecent, estimateTokens } from './context.ts';
import { toAgentRequest } from './request.ts';
import type { EarlierMessages } from './summarize.ts';
import { findConversationSummary } from './summary.sql.ts';

/** More than there is room for in a context, short as they may be. */
const MAX_MESSAGES = 1000;

/** What the requests of a conversation are made from. */
export type RequestDeps = {
  db: Kysely<Tables>;
  memory: Pick<Memory, 'latestFacts' | 'summaryOf'>;
  tools: Tools;
  /** How much the model takes at once: MODEL_CONTEXT_TOKENS. */
  contextTokens: number;
};

/**
 * What the model is sent of a session now, what that was chosen from, and the tools that it may ask for.
 * @param session.ownerId Whose memory it is; nobody's facts are nobody's memory.
 * @param session.profile Undefined where there is none that the owner may use.
 * @param session.answering Whether it is to be answered now: an answer that is to be replaced is no part of it.
 * @returns With the messages that are to be summarized first, where not all have room.
 */
export async function loadRequest(
  { db, memory, tools, contextTokens }: RequestDeps,
  {
    sessionId,
    reach,
    ownerId,
    profile,
    answering,
  }: {
    sessionId: string;
    reach: Reach;
    ownerId: string | null;
    profile: Profile | undefined;
    answering: boolean;
  },
) {
  const [about, facts, summary, files] = await Promise.all([
    ownerId === null ? '' : memory.summaryOf(ownerId),
    ownerId === null ? [] : memory.latestFacts(ownerId),
    findConversationSummary(db, { sessionId, reach }),
    listFiles(db, { sessionId, reach, limit: MAX_FILES }),
  ]);
  const after = summary?.through;
  // The newest come first.
  const stored = await listMessages(db, { sessionId, reach, after, limit: MAX_MESSAGES });
  const messages = stored.map(asTold);
  const { system = '', model = '', tools: names = [] } = profile ?? {};
  const own = tools.of({ tools: names }, { hasFiles: files.length > 0 });
  const definitions = toDefinitions(own);
  const asked = messages.findIndex(({ role }) => role === 'user');
  const said = answering ? messages.slice(Math.max(0, asked)) : messages;
  const context = buildContext({
    system,
    about,
    facts,
    summary: summary?.text ?? null,
    messages: said,
    toolTokens: definitions.length === 0 ? 0 : estimateTokens(JSON.stringify(definitions)),
    contextTokens,
  });
  const hasRoom = context.messages.length === said.length;
  const upTo = hasRoom ? undefined : said[countRecent(said, contextTokens)]?.position;
  const earlier: EarlierMessages | undefined = upTo && { sessionId, reach, summary, upTo };
  const request = toAgentRequest({
    context,
    profile: { model },
    tools: definitions,
    files,
    now: new Date(),
  });
  return {
    context,
    request,
    tools: own,
    summary,
    earlier,
    leftOut: said.length - context.messages.length,
  };
}
