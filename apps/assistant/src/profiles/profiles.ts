import type { User } from '../access/permissions.ts';
import { problem } from '../errors.ts';
import type { ProfileFolder } from './load.ts';
import type { Profile } from './profile.ts';

/** The profiles as their files have them now. */
export type Profiles = ReturnType<typeof createProfiles>;

/** Taken where a session names no profile. */
const DEFAULT_PROFILE = 'default';

/**
 * Who may use which profile: those that are for admins only are hidden from everybody else.
 * Specification 000, Roles; Contract 3, Profiles.
 * @param initial What was read at the start, in the order that it is shown.
 */
export function createProfiles(initial: ProfileFolder) {
  let folder = initial;
  let byId = indexOf(initial);
  const all = () => [...byId.values()];
  const usable = (user: Pick<User, 'role'>) => all().filter((profile) => mayUse(user, profile));

  /** Whether `user` may use a profile as its file has it now; one that is gone is judged as it was. */
  function mayUse({ role }: Pick<User, 'role'>, profile: Profile): boolean {
    const { is_admin_only: isAdminOnly } = byId.get(profile.profile_id) ?? profile;
    return role === 'admin' || !isAdminOnly;
  }

  /** @throws ProblemError `admin_only` where `mayUse` says no. */
  function checkUse(user: Pick<User, 'role'>, profile: Profile): void {
    if (mayUse(user, profile)) return;
    throw problem('admin_only', {
      detail: 'This profile needs the role `admin`. Begin a session with another one.',
    });
  }

  /** What a session gets that names no profile, or one that is gone; nothing where `user` may use none. */
  function usual(user: Pick<User, 'role'>): Profile | undefined {
    const own = usable(user);
    return own.find(({ profile_id }) => profile_id === DEFAULT_PROFILE) ?? own[0];
  }

  return {
    /** Takes what was read since. */
    replace(read: ProfileFolder): void {
      folder = read;
      byId = indexOf(read);
    },

    /** What was read last. */
    get folder(): ProfileFolder {
      return folder;
    },

    /** All of them. */
    all,

    /** What is wrong with the file of a profile now, which is used as it was before; nothing where all is well. */
    faultOf(profileId: string): string | undefined {
      const [file] =
        [...folder.loaded].find(([, { profile }]) => profile.profile_id === profileId) ?? [];
      return folder.faults.find((fault) => fault.file === file)?.message;
    },

    /** Those that `user` may use. */
    usable,

    mayUse,
    checkUse,

    /** A profile, whoever may use it; nothing where there is none, or no more. */
    find: (profileId: string): Profile | undefined => byId.get(profileId),

    usual,

    /**
     * The profile for a new session of `user`: the one that is asked for, else `default`, else the
     * first that they may use.
     * @throws ProblemError `profile_not_found`, or `admin_only` where it is not for them.
     */
    choose(user: Pick<User, 'role'>, profileId?: string): Profile {
      const chosen = profileId === undefined ? usual(user) : byId.get(profileId);
      if (chosen === undefined) throw problem('profile_not_found');
      checkUse(user, chosen);
      return chosen;
    },
  };
}

function indexOf({ loaded }: ProfileFolder): ReadonlyMap<string, Profile> {
  return new Map([...loaded.values()].map(({ profile }) => [profile.profile_id, profile]));
}
