import { retryConflicts } from '@oselya/db';
import type { Kysely, Transaction } from 'kysely';
import { checkAccess } from '../access/guards.ts';
import { lockOwner, type User, accessScope } from '../access/permissions.ts';
import { recordOthersData } from '../admin/audit.ts';
import { problem } from '../errors.ts';
import type { Profiles } from '../profiles/profiles.ts';
import type { Tables } from '../tables.ts';
import { listMessages, type MessagePage } from './messages.sql.ts';
import { requireSession, type SessionKey } from './ownership.sql.ts';
import {
  countSessions,
  deleteSession,
  findSession,
  insertSession,
  listSessions,
  type SessionPage,
  type SessionSummary,
  updateSession,
} from './repository.ts';

/** How many sessions a user may own. Adoption of legacy sessions may pass it. */
const MAX_SESSIONS = 5000;

/** What a new session is to be. */
type NewSession = { profileId?: string | undefined; name?: string | undefined };

/** Conversation sessions under their rules of ownership. */
export type Sessions = ReturnType<typeof createSessions>;

/**
 * What can be done with conversation sessions, by whom, and with what is recorded of it. Specification
 * 000, Ownership rules on session endpoints; Contract 3, Errors: a session that is not theirs is
 * `session_not_yours`, one that does not exist is `session_not_found`.
 */
export function createSessions({
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
     * Creates a session of `user`.
     * @param profileId The default profile without it.
     * @throws ProblemError `permission_missing` without `svc.profiles.use`, `profile_not_found`,
     * `admin_only` for a profile that is, or `too_many_sessions`.
     */
    createSession: (user: User, wanted: NewSession): Promise<SessionSummary> =>
      db.transaction().execute((trx) => createSessionIn(trx, user, wanted)),

    /** As `createSession`, in a transaction with what it is made for. */
    createSessionIn,

    /**
     * The sessions that `user` may see, the most recently active first; that others' are among them is
     * recorded.
     * @returns At most `limit`, each with its position, for the page after it.
     */
    async listSessions(user: User, page: SessionPage) {
      const reach = accessScope(user, 'svc.sessions.read_all');
      const sessions = await listSessions(db, { reach, ...page });
      if (sessions.some(({ user_id }) => user_id !== user.id)) {
        await recordOthersData(db, 'others_data_read', {
          actorId: user.id,
          ownerId: page.userId ?? null,
          details: { data: 'sessions' },
        });
      }
      return sessions;
    },

    /**
     * A session that `user` may see with its messages, the newest first; that it is another's is recorded.
     * @returns At most `limit` messages, each with its position, for the page after it.
     * @throws ProblemError `session_not_found` or `session_not_yours`.
     */
    async openConversation(user: User, page: MessagePage) {
      const session = await findForReading(user, page.sessionId);
      const reach = accessScope(user, 'svc.sessions.read_all');
      return { session, messages: await listMessages(db, { reach, ...page }) };
    },

    /**
     * Whose a session is that `user` may see.
     * @throws ProblemError `session_not_found` or `session_not_yours`.
     */
    requireReadable: (user: User, sessionId: string): Promise<{ userId: string | null }> =>
      requireSession(db, { sessionId, reach: accessScope(user, 'svc.sessions.read_all') }),

    /**
     * Renames a session, pins or unpins it: its owner may, and an admin, whose change is recorded.
     * @throws ProblemError `session_not_found` or `session_not_yours`.
     */
    changeSession(
      user: User,
      sessionId: string,
      changes: { name?: string; pinned?: boolean },
    ): Promise<SessionSummary> {
      const reach = accessScope(user);
      return db.transaction().execute(async (trx) => {
        const session =
          (await updateSession(trx, { sessionId, reach, changes })) ??
          (await refuse(trx, { sessionId, reach }));
        await recordOthersData(trx, 'others_data_changed', {
          actorId: user.id,
          ownerId: session.user_id,
          details: { data: 'session', session_id: sessionId },
        });
        return session;
      });
    },

    /**
     * Deletes a session with all that is in it; that it was another's is recorded.
     * @throws ProblemError `session_not_found` or `session_not_yours`.
     */
    async deleteSession(user: User, sessionId: string): Promise<void> {
      const reach = accessScope(user, 'svc.sessions.delete_all');
      const work = async (trx: Transaction<Tables>) => {
        const deleted =
          (await deleteSession(trx, { sessionId, reach })) ??
          (await refuse(trx, { sessionId, reach }));
        await recordOthersData(trx, 'others_data_changed', {
          actorId: user.id,
          ownerId: deleted.userId,
          details: { data: 'session', session_id: sessionId, deleted: true },
        });
      };
      // Saved searches of the session are locked in the order of the reference to it, which is none.
      await retryConflicts(() => db.transaction().execute(work));
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
    if ((await countSessions(trx, user.id)) >= maxSessions) {
      throw problem('too_many_sessions', {
        detail: `You have ${maxSessions}, which is the most. Delete one that is not needed any more, then try again.`,
      });
    }
    return insertSession(trx, { userId: user.id, profileId: profile_id, name });
  }

  async function findForReading(user: User, sessionId: string): Promise<SessionSummary> {
    const reach = accessScope(user, 'svc.sessions.read_all');
    const session =
      (await findSession(db, { sessionId, reach })) ?? (await refuse(db, { sessionId, reach }));
    await recordOthersData(db, 'others_data_read', {
      actorId: user.id,
      ownerId: session.user_id,
      details: { data: 'session', session_id: sessionId },
    });
    return session;
  }
}

/** Says why a statement found no session within reach. */
async function refuse(db: Kysely<Tables>, session: SessionKey): Promise<never> {
  await requireSession(db, session);
  // It came within reach since the statement looked.
  throw problem('session_not_found');
}
