import type { User } from '../access/user.ts';
import { problem } from '../errors.ts';
import type { Profile } from './profile.ts';

/** The profiles that were read at the start. */
export type Profiles = ReturnType<typeof createProfiles>;

/** Taken where a session names no profile. */
const DEFAULT_PROFILE = 'default';

/**
 * Who may use which profile: those that are for admins only are hidden from everybody else.
 * Specification 000, Roles; Contract 3, Profiles.
 * @param profiles With ids that differ, in the order that they are shown.
 */
export function createProfiles(profiles: readonly Profile[]) {
  const byId = new Map(profiles.map((profile) => [profile.profile_id, profile]));
  const usable = ({ role }: Pick<User, 'role'>) =>
    profiles.filter(({ is_admin_only }) => role === 'admin' || !is_admin_only);

  return {
    /** All of them. */
    all: profiles,

    /** Those that `user` may use. */
    usable,

    /** A profile, whoever may use it; nothing where there is none, or no more. */
    find: (profileId: string): Profile | undefined => byId.get(profileId),

    /**
     * The profile for a new session of `user`: the one that is asked for, else `default`, else the
     * first that they may use.
     * @throws ProblemError `profile_not_found`, or `admin_only` where it is not for them.
     */
    choose(user: Pick<User, 'role'>, profileId?: string): Profile {
      const own = usable(user);
      const chosen =
        profileId === undefined
          ? (own.find(({ profile_id }) => profile_id === DEFAULT_PROFILE) ?? own[0])
          : byId.get(profileId);
      if (chosen === undefined) throw problem('profile_not_found');
      if (!own.includes(chosen)) {
        throw problem('admin_only', { detail: 'This profile is for administrators only.' });
      }
      return chosen;
    },
  };
}
