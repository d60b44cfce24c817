import { randomUUID } from 'node:crypto';
import { notify, retryConflicts } from '@oselya/db';
import { type Kysely, sql, type Transaction } from 'kysely';
import { checkAccess } from '../access/guards.ts';
import { accessScope, lockOwner, type User } from '../access/permissions.ts';
import { recordOthersData } from '../admin/audit.ts';
import { problem } from '../errors.ts';
import type { Profiles } from '../profiles/profiles.ts';
import type { Tables } from '../tables.ts';
import { listMessages, type MessagePage } from './messages.ts';
import {
  deleteSession,
  findSession,
  listSessions,
  requireSession,
  SESSION_CHANNEL,
  type SessionKey,
  type SessionPage,
  type SessionSummary,
  summaryColumns,
  whereOwnerInScope,
} from './session-rows.ts';

/** Maximum number of sessions per user. Assigned sessions from an older system may exceed it. */
const MAX_SESSIONS = 5000;

type NewSession = { profileId?: string | undefined; name?: string | undefined };

/** The session service. See {@link createSessionService}. */
export type SessionService = ReturnType<typeof createSessionService>;

/** Creates the session service, which enforces ownership and records access to other users' sessions. */
export function createSessionService({
  db,
  profiles,
  maxSessions = MAX_SESSIONS,
}: {
  db: Kysely<Tables>;
  profiles: Profiles;
  maxSessions?: number;
}) {
  return {
    /**
     * Creates a session for a user, with the default profile unless `session` names another.
     * @throws ProblemError `permission_missing`, `profile_not_found`, `admin_only` or `too_many_sessions`.
     */
    createSession: (user: User, session: NewSession): Promise<SessionSummary> =>
      db.transaction().execute((trx) => createSessionIn(trx, user, session)),

    /** Creates a session in the caller's transaction. See `createSession`. */
    createSessionIn,

    /** Returns a page of the sessions that a user may read, with their positions, most recently active first. */
    async listSessions(user: User, page: SessionPage) {
      const scope = accessScope(user, 'svc.sessions.read_all');
      const sessions = await listSessions(db, { scope, ...page });
      if (sessions.some(({ user_id }) => user_id !== user.id)) {
        const details = { data: 'sessions' };
        const accessRecord = { actorId: user.id, ownerId: page.userId ?? null, details };
        await recordOthersData(db, 'others_data_read', accessRecord);
      }
      return sessions;
    },

    /**
     * Returns a session that a user may read and a page of its messages, newest first.
     * @throws ProblemError `session_not_found` or `session_not_yours`.
     */
    async openConversation(user: User, page: MessagePage) {
      const scope = accessScope(user, 'svc.sessions.read_all');
      const key = { sessionId: page.sessionId, scope };
      const session = (await findSession(db, key)) ?? (await throwNoAccess(db, key));
      await recordAccess(db, 'others_data_read', { user, session });
      return { session, messages: await listMessages(db, { scope, ...page }) };
    },

    /**
     * Returns the owner of a session that a user may read.
     * @throws ProblemError `session_not_found` or `session_not_yours`.
     */
    requireReadable: (user: User, sessionId: string): Promise<{ userId: string | null }> =>
      requireSession(db, { sessionId, scope: accessScope(user, 'svc.sessions.read_all') }),

    /**
     * Renames, pins or unpins a session for its owner or an admin.
     * @throws ProblemError `session_not_found` or `session_not_yours`.
     */
    changeSession(
      user: User,
      sessionId: string,
      changes: { name?: string; pinned?: boolean },
    ): Promise<SessionSummary> {
      const key = { sessionId, scope: accessScope(user) };
      return db.transaction().execute(async (trx) => {
        const updatedSession = await trx
          .updateTable('conversation_sessions')
          .set(changes)
          .where('id', '=', sessionId)
          .where(whereOwnerInScope(key.scope))
          .returning(summaryColumns)
          .executeTakeFirst();
        const session = updatedSession ?? (await throwNoAccess(trx, key));
        await notify<Tables>(trx, SESSION_CHANNEL, sessionId);
        await recordAccess(trx, 'others_data_changed', { user, session });
        return session;
      });
    },

    /**
     * Marks the messages so far in a user's own session as read.
     * @throws ProblemError `session_not_found` or `session_not_yours`.
     */
    async markRead(user: User, sessionId: string): Promise<void> {
      const key = { sessionId, scope: { userId: user.id } };
      const { numUpdatedRows } = await db
        .updateTable('conversation_sessions')
        .set({ read_at: sql<Date>`clock_timestamp()` })
        .where('id', '=', sessionId)
        .where(whereOwnerInScope(key.scope))
        .executeTakeFirstOrThrow();
      if (numUpdatedRows === 0n) await throwNoAccess(db, key);
    },

    /**
     * Deletes a session with its messages and files.
     * @throws ProblemError `session_not_found` or `session_not_yours`.
     */
    async deleteSession(user: User, sessionId: string): Promise<void> {
      const key = { sessionId, scope: accessScope(user, 'svc.sessions.delete_all') };
      const deleteAndRecord = async (trx: Transaction<Tables>) => {
        const { user_id } = (await deleteSession(trx, key)) ?? (await throwNoAccess(trx, key));
        const session = { session_id: sessionId, user_id };
        await recordAccess(trx, 'others_data_changed', { user, session, deleted: true });
      };
      // The cascade locks saved searches in an undefined order, so two deletions can deadlock and need a retry.
      await retryConflicts(() => db.transaction().execute(deleteAndRecord));
    },
  };

  async function createSessionIn(
    trx: Transaction<Tables>,
    user: User,
    { profileId, name = '' }: NewSession,
  ): Promise<SessionSummary> {
    checkAccess(user, { permission: 'svc.profiles.use' });
    const { profile_id } = profiles.choose(user, profileId);
    await lockOwner(trx, user.id);
    const { count } = await trx
      .selectFrom('conversation_sessions')
      .select(({ fn }) => fn.countAll<number>().as('count'))
      .where('user_id', '=', user.id)
      .executeTakeFirstOrThrow();
    if (count >= maxSessions) {
      throw problem('too_many_sessions', {
        detail: `You have ${maxSessions} sessions, which is the limit. Delete one, then try again.`,
      });
    }
    const now = sql<Date>`now()`;
    const times = { created_at: now, last_active: now, read_at: now };
    return trx
      .insertInto('conversation_sessions')
      .values({ id: randomUUID(), user_id: user.id, profile_id, name, pinned: false, ...times })
      .returning(summaryColumns)
      .executeTakeFirstOrThrow();
  }
}

/** Records access to a session, unless the user owns it. */
function recordAccess(
  db: Kysely<Tables>,
  action: Parameters<typeof recordOthersData>[1],
  {
    user,
    session: { session_id, user_id },
    ...extraDetails
  }: { user: User; session: Pick<SessionSummary, 'session_id' | 'user_id'>; deleted?: true },
): Promise<void> {
  const details = { data: 'session', session_id, ...extraDetails };
  return recordOthersData(db, action, { actorId: user.id, ownerId: user_id, details });
}

/** Throws the problem that explains why a statement found no session in the access scope. */
async function throwNoAccess(db: Kysely<Tables>, session: SessionKey): Promise<never> {
  await requireSession(db, session);
  // The session entered the access scope after the statement had run.
  throw problem('session_not_found');
}
