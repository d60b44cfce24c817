import type { User } from '../access/user.ts';
import { recordOthersData } from '../audit/index.ts';
import { cachedRole } from '../identity/index.ts';
import { loadRequest, type RequestDeps } from '../agent/index.ts';
import { listSteps } from '../planning/index.ts';
import type { Profile } from '../profiles/profile.ts';
import type { Profiles } from '../profiles/profiles.ts';
import { requireSession } from '../sessions/index.ts';

/** Why a message is answered by no request: nobody owns the session, or its owner may use no profile, or not this one. */
export const REFUSALS = ['session_not_yours', 'profile_not_found', 'admin_only'] as const;

type Refusal = (typeof REFUSALS)[number];

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
     * @returns With the code of the problem that the owner's next message would meet instead; null where it would be
     *   sent.
     * @throws ProblemError `session_not_found`.
     */
    async readContext(user: User, sessionId: string) {
      const { userId: ownerId, profileId } = await requireSession(db, { sessionId, reach });
      await noteReading(user, { ownerId, sessionId, data: 'session_context' });
      // As the owner is answered; what nobody owns, as somebody without a role would be.
      const role = ownerId === null ? 'user' : await cachedRole(db, ownerId);
      const profile = profiles.find(profileId) ?? profiles.usual({ role });
      const refusal = refusalOf({ ownerId, role, profile });
      const loaded = await loadRequest(deps, {
        sessionId,
        reach,
        ownerId,
        profile,
        answering: false,
      });
      return { sessionId, profileId, refusal, ...loaded };
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

  /** As `Chat.send` refuses a message. */
  function refusalOf({
    ownerId,
    role,
    profile,
  }: {
    ownerId: string | null;
    role: User['role'];
    profile: Profile | undefined;
  }): Refusal | null {
    if (ownerId === null) return 'session_not_yours';
    if (profile === undefined) return 'profile_not_found';
    return profiles.usable({ role }).includes(profile) ? null : 'admin_only';
  }

  function noteReading(
    user: User,
    { ownerId, sessionId, data }: { ownerId: string | null; sessionId: string; data: string },
  ): Promise<void> {
    const details = { data, session_id: sessionId };
    return recordOthersData(db, 'others_data_read', { actorId: user.id, ownerId, details });
  }
}
