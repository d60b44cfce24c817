import { hasPermission, type User } from '../access/permissions.ts';
import { recordOthersData } from '../admin/audit.ts';
import { cachedAccess } from '../identity/users.ts';
import { loadRequest, type RequestDeps } from '../agent/context.ts';
import { listSteps } from '../planning/index.ts';
import type { Profile } from '../profiles/profile-file.ts';
import type { Profiles } from '../profiles/profiles.ts';
import { requireSession } from '../sessions/index.ts';

/** Why a message is answered by no request: nobody owns the session, or its owner may use no profile, or not this one. */
export const REFUSALS = [
  'session_not_yours',
  'permission_missing',
  'profile_not_found',
  'admin_only',
] as const;

type Refusal = (typeof REFUSALS)[number];

/** Whose a session is, with what they may do. */
type Owner = Pick<User, 'id' | 'role' | 'permissions'>;

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
     * What the model would be sent now, to an owner with the role and permissions that were cached of them last.
     * @returns With the code of the problem that the owner's next message would meet instead; null where it would be
     *   sent.
     * @throws ProblemError `session_not_found`.
     */
    async readContext(user: User, sessionId: string) {
      const { userId: ownerId, profileId } = await requireSession(db, { sessionId, reach });
      await noteReading(user, { ownerId, sessionId, data: 'session_context' });
      const owner = ownerId === null ? null : { id: ownerId, ...(await cachedAccess(db, ownerId)) };
      // What nobody owns is shown as somebody without a role would be answered.
      const profile = profiles.find(profileId) ?? profiles.usual(owner ?? { role: 'user' });
      const refusal = refusalOf(owner, profile);
      const loaded = await loadRequest(deps, {
        sessionId,
        reach,
        owner,
        profile,
        isAnswering: false,
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

  /** As `message.send` is refused: by the permission that it needs, and by `Chat.send`. */
  function refusalOf(owner: Owner | null, profile: Profile | undefined): Refusal | null {
    if (owner === null) return 'session_not_yours';
    if (!hasPermission(owner, 'svc.profiles.use')) return 'permission_missing';
    if (profile === undefined) return 'profile_not_found';
    return profiles.mayUse(owner, profile) ? null : 'admin_only';
  }

  function noteReading(
    user: User,
    { ownerId, sessionId, data }: { ownerId: string | null; sessionId: string; data: string },
  ): Promise<void> {
    const details = { data, session_id: sessionId };
    return recordOthersData(db, 'others_data_read', { actorId: user.id, ownerId, details });
  }
}
