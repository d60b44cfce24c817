import type { Kysely } from 'kysely';
import { hasPermission, type AccessScope, type User } from '../access/permissions.ts';
import { listFiles, MAX_FILES } from '../files/files.ts';
import type { Memory } from '../memory/memory.ts';
import type { Profile } from '../profiles/profile-file.ts';
import { listMessages } from '../sessions/index.ts';
import type { Tables } from '../tables.ts';
import { toDefinitions, type Tools } from '../tools/tools.ts';
import { asTold, buildContext, MAX_MESSAGES } from './context.ts';
import type { EarlierMessages } from './summarize.ts';
import { findConversationSummary } from './summary.sql.ts';

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
 * @param session.owner Whose memory goes along, where they may see it themselves: what a model is told of somebody, it
 *   tells them. Null where the session has no owner, as nobody's facts are nobody's memory.
 * @param session.profile Undefined where there is none that the owner may use.
 * @param session.answering Whether it is to be answered now: an answer that is to be replaced is no part of it.
 * @returns With the messages that are to be summarized first, where not all have room.
 */
export async function loadRequest(
  { db, memory, tools, contextTokens }: RequestDeps,
  {
    sessionId,
    reach,
    owner,
    profile,
    answering,
  }: {
    sessionId: string;
    reach: AccessScope;
    owner: Pick<User, 'id' | 'role' | 'permissions'> | null;
    profile: Profile | undefined;
    answering: boolean;
  },
) {
  const isRemembered = owner !== null && hasPermission(owner, 'svc.memory.read_own');
  const [about, facts, summary, files] = await Promise.all([
    isRemembered ? memory.summaryOf(owner.id) : '',
    isRemembered ? memory.latestFacts(owner.id) : [],
    findConversationSummary(db, { sessionId, reach }),
    listFiles(db, { sessionId, reach, limit: MAX_FILES }),
  ]);
  const after = summary?.through;
  // The newest come first. One more than may be sent tells that there are others before.
  const limit = MAX_MESSAGES + 1;
  const stored = (await listMessages(db, { sessionId, reach, after, limit })).map(asTold);
  const latest = stored.slice(0, MAX_MESSAGES);
  const own = profile === undefined ? [] : tools.of(profile, { hasFiles: files.length > 0 });
  const asked = latest.findIndex(({ role }) => role === 'user');
  const first = answering ? Math.max(0, asked) : 0;
  const { context, request, tokenEstimate, recentCount, summaryTokens } = buildContext({
    system: profile?.system ?? '',
    about,
    facts,
    files: files.toSorted((one, other) => other.updated_at.getTime() - one.updated_at.getTime()),
    summary: summary?.text ?? null,
    messages: latest.slice(first),
    tools: toDefinitions(own),
    modelName: profile?.model ?? '',
    now: new Date(),
    contextTokens,
  });
  const said = stored.slice(first);
  const leftOut = said.length - context.messages.length;
  const upTo = leftOut === 0 ? undefined : said[recentCount]?.position;
  const earlier: EarlierMessages | undefined = upTo && {
    sessionId,
    reach,
    summary,
    upTo,
    summaryTokens,
  };
  return { context, request, tokenEstimate, tools: own, summary, earlier, leftOut };
}
