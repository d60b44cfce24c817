import type { Kysely } from 'kysely';
import type { Reach } from '../access/reach.ts';
import { listFiles } from '../files/repository.ts';
import { MAX_FILES } from '../files/service.ts';
import type { Memory } from '../memory/service.ts';
import type { Profile } from '../profiles/profile.ts';
import { listMessages } from '../sessions/messages.ts';
import type { Tables } from '../tables.ts';
import { toDefinitions, type Tools } from '../tools/tools.ts';
import { buildContext } from './context.ts';
import { toAgentRequest } from './request.ts';

/** More than there is room for in a context, short as they may be. */
const MAX_MESSAGES = 1000;

/** What the requests of a conversation are made from. */
export type RequestDeps = {
  db: Kysely<Tables>;
  memory: Pick<Memory, 'latestFacts'>;
  tools: Tools;
};

/**
 * What the model is sent of a session now, what that was chosen from, and the tools that it may ask for.
 * @param session.ownerId Whose memory it is; nobody's facts are nobody's memory.
 * @param session.profile Undefined where there is no such profile any more.
 * @param session.answering Whether it is to be answered now: an answer that is to be replaced is no part of it.
 */
export async function loadRequest(
  { db, memory, tools }: RequestDeps,
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
  const [facts, messages, files] = await Promise.all([
    ownerId === null ? [] : memory.latestFacts(ownerId),
    listMessages(db, { sessionId, reach, limit: MAX_MESSAGES }),
    listFiles(db, { sessionId, reach, limit: MAX_FILES }),
  ]);
  const { system = '', model = '', tools: names = [] } = profile ?? {};
  const own = tools.of({ tools: names }, { hasFiles: files.length > 0 });
  // The newest come first.
  const asked = messages.findIndex(({ role }) => role === 'user');
  const said = answering ? messages.slice(Math.max(0, asked)) : messages;
  const context = buildContext({ system, facts, messages: said });
  const request = toAgentRequest({
    context,
    profile: { model },
    tools: toDefinitions(own),
    files,
    now: new Date(),
  });
  return { context, request, tools: own };
}
