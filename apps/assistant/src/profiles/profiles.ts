import { readdir, stat } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { isDeepStrictEqual } from 'node:util';
import { type Logger, StartError } from '@oselya/kit';
import type { FastifyInstance } from 'fastify';
import type { User } from '../access/permissions.ts';
import { problem } from '../errors.ts';
import {
  type ParsedProfile,
  type Profile,
  type ProfileRules,
  readProfileFile,
  formatReason,
} from './profile-file.ts';

/** Folder with the profiles that come with the assistant. */
export const SHIPPED_PROFILES = fileURLToPath(new URL('../../profiles', import.meta.url));

/** Maximum number of profile files in a folder, which are checked for changes every second. */
const MAX_FILES = 200;

const DEFAULT_PROFILE = 'default';

const POLL_INTERVAL_MS = 1000;

/** Violated rule of a file, such as `default.yaml:3 name must be 1 to 100 characters`. */
type FileViolation = { file: string; message: string };

/** Content of a folder: profiles with unique IDs by file name, in file order, and violations. */
type Folder = {
  profiles: ReadonlyMap<string, ParsedProfile>;
  violations: readonly FileViolation[];
};

export type Profiles = Awaited<ReturnType<typeof openProfiles>>;

/**
 * Reads the agent profiles of a folder. docs/profiles.md.
 * @throws StartError with all violations of all files, or if the folder is unreadable, or has no or too many files.
 */
export async function openProfiles({
  folder,
  log,
  ...rules
}: ProfileRules & { folder: string; log: Pick<Logger, 'info' | 'error'> }) {
  let currentFolder = await readFolder(await listFiles(folder), rules);
  if (currentFolder.violations.length > 0) {
    const violations = currentFolder.violations.map(({ message }) => join(folder, message));
    throw new StartError(`Agent profiles cannot be used:\n  ${violations.join('\n  ')}`);
  }
  let profilesById = indexById(currentFolder);
  let seenVersion = '';
  let loadedVersion = '';
  let loggedViolations: readonly string[] = [];

  const listAll = () => [...profilesById.values()];
  const listUsable = (user: Pick<User, 'role'>) =>
    listAll().filter((profile) => canUse(user, profile));

  /** Returns whether a user can use a profile. Its current file takes precedence over the given version. */
  function canUse({ role }: Pick<User, 'role'>, profile: Profile): boolean {
    const { is_admin_only: isAdminOnly } = profilesById.get(profile.profile_id) ?? profile;
    return role === 'admin' || !isAdminOnly;
  }

  /** Checks that a user can use a profile. @throws ProblemError `admin_only` */
  function checkUse(user: Pick<User, 'role'>, profile: Profile): void {
    if (canUse(user, profile)) return;
    throw problem('admin_only', {
      detail: 'This profile needs the role `admin`. Start a session with a different profile.',
    });
  }

  /** Returns the profile for sessions that name none: `default` if usable, else the first usable one, if any. */
  function findDefault(user: Pick<User, 'role'>): Profile | undefined {
    const usableProfiles = listUsable(user);
    return (
      usableProfiles.find(({ profile_id }) => profile_id === DEFAULT_PROFILE) ?? usableProfiles[0]
    );
  }

  function logViolations(violations: readonly string[]): void {
    if (isDeepStrictEqual(violations, loggedViolations)) return;
    loggedViolations = violations;
    if (violations.length === 0) log.info('all agent profile files are valid again');
    else
      log.error(
        { folder, faults: violations },
        'invalid agent profile files keep their last valid profile',
      );
  }

  /** Reads changed files once they are stable between two calls, because a write may be in progress. */
  async function reload(): Promise<void> {
    try {
      const paths = await listFiles(folder);
      const version = await readVersion(paths);
      const isStable = version === seenVersion;
      seenVersion = version;
      if (isStable && version !== loadedVersion) {
        const nextFolder = await readFolder(paths, rules, currentFolder.profiles);
        seenVersion = await readVersion(paths);
        if (seenVersion === version) {
          loadedVersion = version;
          const isChanged = !isDeepStrictEqual(nextFolder.profiles, currentFolder.profiles);
          currentFolder = nextFolder;
          profilesById = indexById(nextFolder);
          if (isChanged)
            log.info({ folder, profiles: [...profilesById.keys()] }, 'agent profiles changed');
        }
      }
      logViolations(currentFolder.violations.map(({ message }) => message));
    } catch (error) {
      // The folder is unreadable, or has no or too many profile files. The last profiles stay in use.
      logViolations([formatReason(error)]);
    }
  }

  return {
    listAll,
    listUsable,
    canUse,
    checkUse,
    findDefault,
    reload,

    /** Returns the first violation of a profile's current file, if any. The file's last valid version is in use. */
    findViolation(profileId: string): string | undefined {
      const entry = [...currentFolder.profiles].find(
        ([, { profile }]) => profile.profile_id === profileId,
      );
      return currentFolder.violations.find(({ file }) => file === entry?.[0])?.message;
    },

    find: (profileId: string): Profile | undefined => profilesById.get(profileId),

    /**
     * Returns the requested profile for a new session, or the default.
     * @throws ProblemError `profile_not_found` or `admin_only`
     */
    choose(user: Pick<User, 'role'>, profileId?: string): Profile {
      const profile = profileId === undefined ? findDefault(user) : profilesById.get(profileId);
      if (profile === undefined) throw problem('profile_not_found');
      checkUse(user, profile);
      return profile;
    },
  };
}

/**
 * Reloads profiles every second while the server listens. It polls, because file system notifications miss changes in
 * network mounts and Kubernetes config maps.
 */
export function watchProfiles(app: FastifyInstance, profiles: Pick<Profiles, 'reload'>): void {
  const closeController = new AbortController();
  let watchPromise: Promise<void> | undefined;
  async function watch({ signal }: AbortController): Promise<void> {
    while (!signal.aborted) {
      await profiles.reload();
      await sleep(POLL_INTERVAL_MS, undefined, { signal, ref: false }).catch(() => undefined);
    }
  }
  app.addHook('onListen', (done) => {
    watchPromise = watch(closeController);
    done();
  });
  app.addHook('onClose', async () => {
    closeController.abort();
    await watchPromise;
  });
}

const indexById = ({ profiles }: Folder): ReadonlyMap<string, Profile> =>
  new Map([...profiles.values()].map(({ profile }) => [profile.profile_id, profile]));

/**
 * Reads all files. An invalid file, such as one with the ID of another file, keeps its last valid profile, if any.
 * @param previous Profiles of the last call, by file name.
 */
async function readFolder(
  paths: readonly string[],
  rules: ProfileRules,
  previous: Folder['profiles'] = new Map(),
): Promise<Folder> {
  const violations: FileViolation[] = [];
  const addViolation = (file: string, line: number, rule: string) =>
    violations.push({ file, message: `${file}:${line} ${rule}` });
  const parsedFiles = new Map<string, ParsedProfile | undefined>();
  for (const path of paths) {
    const file = basename(path);
    const content = await readProfileFile(path, rules);
    parsedFiles.set(file, 'profile' in content ? content : undefined);
    if ('violations' in content) {
      for (const { line, rule } of content.violations) addViolation(file, line, rule);
    }
  }
  const hasNewId = (file: string) =>
    getProfileId(parsedFiles.get(file) ?? previous.get(file)) !== getProfileId(previous.get(file));
  const profiles = new Map<string, ParsedProfile>();
  const findOwner = (id: string | undefined) =>
    [...profiles].find(([, { profile }]) => profile.profile_id === id);
  const files = [...parsedFiles.keys()];
  // A file that keeps its ID takes precedence over a file that adopts it.
  for (const file of files.toSorted((a, b) => Number(hasNewId(a)) - Number(hasNewId(b)))) {
    const newProfile = parsedFiles.get(file);
    const [owner, { idLine = 0 } = {}] = (newProfile && findOwner(getProfileId(newProfile))) ?? [];
    if (newProfile !== undefined && owner !== undefined) {
      addViolation(
        file,
        newProfile.idLine,
        `profile_id must differ from the one in ${owner}:${idLine}`,
      );
    }
    const activeProfile =
      owner === undefined ? (newProfile ?? previous.get(file)) : previous.get(file);
    if (activeProfile !== undefined && findOwner(getProfileId(activeProfile)) === undefined)
      profiles.set(file, activeProfile);
  }
  const sortedEntries = files.flatMap((file) => [...profiles].filter(([name]) => name === file));
  return { profiles: new Map(sortedEntries), violations };
}

const getProfileId = (parsedProfile: ParsedProfile | undefined) =>
  parsedProfile?.profile.profile_id;

/**
 * Returns the paths of the `.yaml` and `.yml` files of a folder, sorted by name.
 * @throws StartError if the folder is unreadable, or contains no such files or too many.
 */
async function listFiles(folder: string): Promise<string[]> {
  const entries = await readdir(folder).catch((error: unknown) => {
    throw new StartError(
      `Agent profiles cannot be read (${formatReason(error)}): PROFILES_DIR must be a folder with a .yaml file for each profile`,
      { cause: error },
    );
  });
  const files = entries.filter((name) => /\.ya?ml$/.test(name)).toSorted();
  if (files.length === 0) {
    throw new StartError(
      `There is no agent profile in ${folder}: put a .yaml file there, or unset PROFILES_DIR to use the shipped ones`,
    );
  }
  if (files.length > MAX_FILES) {
    throw new StartError(
      `There are ${files.length} agent profiles in ${folder}, and at most ${MAX_FILES} are allowed: remove some`,
    );
  }
  return files.map((file) => join(folder, file));
}

/** Returns a string that differs after every file change. It includes ctime, which programs cannot set. */
async function readVersion(paths: readonly string[]): Promise<string> {
  const versions: string[] = [];
  for (const path of paths) {
    const stats = await stat(path, { bigint: true }).catch(formatReason);
    const version =
      typeof stats === 'string'
        ? stats
        : [stats.dev, stats.ino, stats.size, stats.mtimeNs, stats.ctimeNs];
    versions.push(`${path}\0${String(version)}`);
  }
  return versions.join('\0');
}
