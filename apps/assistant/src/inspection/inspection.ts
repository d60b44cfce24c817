import type { User } from '../access/user.ts';
import { recordOthersData } from '../audit/others-data.ts';
import { problem } from '../errors.ts';
import { cachedRole } from '../identity/own-account.sql.ts';
import { loadRequest, type RequestDeps } from '../agent/index.ts';
import { listSteps } from '../planning/index.ts';
import type { Profiles } from '../profiles/profiles.ts';
import { findSession, requireSession } from '../sessions/index.ts';

/** A session as admins look into it. */
export type Inspection = ReturnType<typeof createInspection>;

/**
 * What only admins see of a session, with the record that they did. Specification 000, Ownership rules
 * on session endpoints; Contract 3, Answers.
 */
export function createInspection({ profiles, ...deps }: RequestDeps & { profiles: Profiles }) {
  const { db } = deps;
  const reach = 'everything';

  return {
    /**
     * What the model would be sent now.
     * @throws ProblemError `session_not_found`.
     */
    async readContext(user: User, sessionId: string) {
      const session = await findSession(db, { sessionId, reach });
      if (session === undefined) throw problem('session_not_found');
      const { user_id: ownerId, profile_id: profileId } = session;
      await noteReading(user, { ownerId, sessionId, data: 'session_context' });
      // As the owner is answered; what nobody owns, as somebody without a role would be.
      const role = ownerId === null ? 'user' : await cachedRole(db, ownerId);
      const profile = profiles.find(profileId) ?? profiles.usual({ role });
      const loaded = await loadRequest(deps, {
        sessionId,
        reach,
        ownerId,
        profile,
        answering: false,
      });
      return { sessionId, profileId, ...loaded };
    },

    /**
     * What the agent did, the newest step first.
     * @param before The number of the last step of the page before.
     * @returns At most `limit`, each with its number.
     * @throws ProblemError `session_not_found`.
     */
    async listSteps(
      user: User,
      { sessionId, ...page }: { sessionId: string; before?: number | undefined; limit: number },
    ) {
      const { userId: ownerId } = await requireSession(db, { sessionId, reach });
      await noteReading(user, { ownerId, sessionId, data: 'session_planning' });
      return listSteps(db, { sessionId, ...page });
    },
  };

  function noteReading(
    user: User,
    { ownerId, sessionId, data }: { ownerId: string | null; sessionId: string; data: string },
  ): Promise<void> {
    const details = { data, session_id: sessionId };
    return recordOthersData(db, 'others_data_read', { actorId: user.id, ownerId, details });
  }
}
