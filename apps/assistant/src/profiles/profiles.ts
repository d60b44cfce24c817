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

const POLL_MS = 1000;

/** Broken rule of a file, such as `default.yaml:3 name must be 1 to 100 characters`. */
type FileFault = { file: string; message: string };

/** Content of a folder: profiles with unique ids by file name, in order, and faults. */
type Folder = { profiles: ReadonlyMap<string, ParsedProfile>; faults: readonly FileFault[] };

export type Profiles = Awaited<ReturnType<typeof openProfiles>>;

/**
 * Reads the agent profiles of a folder. docs/profiles.md.
 * @throws StartError listing all faults of all files, or when the folder has no profiles.
 */
export async function openProfiles({
  folder,
  log,
  ...rules
}: ProfileRules & { folder: string; log: Pick<Logger, 'info' | 'error'> }) {
  let current = await readFolder(await listFiles(folder), rules);
  if (current.faults.length > 0) {
    const faults = current.faults.map(({ message }) => join(folder, message));
    throw new StartError(`Agent profiles cannot be used:\n  ${faults.join('\n  ')}`);
  }
  let byId = indexById(current);
  let seenState = '';
  let loadedState = '';
  let loggedFaults: readonly string[] = [];

  const listAll = () => [...byId.values()];
  const listUsable = (user: Pick<User, 'role'>) =>
    listAll().filter((profile) => canUse(user, profile));

  /** Returns whether a user can use a profile by its current file, or by its last file if it was removed. */
  function canUse({ role }: Pick<User, 'role'>, profile: Profile): boolean {
    const { is_admin_only: isAdminOnly } = byId.get(profile.profile_id) ?? profile;
    return role === 'admin' || !isAdminOnly;
  }

  /** @throws ProblemError `admin_only` */
  function checkUse(user: Pick<User, 'role'>, profile: Profile): void {
    if (canUse(user, profile)) return;
    throw problem('admin_only', {
      detail: 'This profile needs the role `admin`. Start a session with another profile.',
    });
  }

  /** Returns the profile of sessions that name none: `default`, or the first one that the user can use. */
  function findDefault(user: Pick<User, 'role'>): Profile | undefined {
    const own = listUsable(user);
    return own.find(({ profile_id }) => profile_id === DEFAULT_PROFILE) ?? own[0];
  }

  function logFaults(faults: readonly string[]): void {
    if (isDeepStrictEqual(faults, loggedFaults)) return;
    loggedFaults = faults;
    if (faults.length === 0) log.info('all agent profile files are valid again');
    else log.error({ folder, faults }, 'invalid agent profile files keep their last valid profile');
  }

  /** Reads the files again once they have been unchanged since the previous call. */
  async function reload(): Promise<void> {
    try {
      const paths = await listFiles(folder);
      const state = await readState(paths);
      const isStable = state === seenState;
      seenState = state;
      if (isStable && state !== loadedState) {
        const next = await readFolder(paths, rules, current.profiles);
        seenState = await readState(paths);
        if (seenState === state) {
          loadedState = state;
          const isChanged = !isDeepStrictEqual(next.profiles, current.profiles);
          current = next;
          byId = indexById(next);
          if (isChanged) log.info({ folder, profiles: [...byId.keys()] }, 'agent profiles changed');
        }
      }
      logFaults(current.faults.map(({ message }) => message));
    } catch (error) {
      // The folder is unreadable or empty. The last profiles stay in use.
      logFaults([formatReason(error)]);
    }
  }

  return {
    listAll,
    listUsable,
    canUse,
    checkUse,
    findDefault,
    reload,

    /** Returns the fault of a profile's current file. The last valid version of the file is in use. */
    findFault(profileId: string): string | undefined {
      const found = [...current.profiles].find(
        ([, { profile }]) => profile.profile_id === profileId,
      );
      return current.faults.find(({ file }) => file === found?.[0])?.message;
    },

    find: (profileId: string): Profile | undefined => byId.get(profileId),

    /**
     * Returns the requested profile for a new session, or the default.
     * @throws ProblemError `profile_not_found` or `admin_only`
     */
    choose(user: Pick<User, 'role'>, profileId?: string): Profile {
      const chosen = profileId === undefined ? findDefault(user) : byId.get(profileId);
      if (chosen === undefined) throw problem('profile_not_found');
      checkUse(user, chosen);
      return chosen;
    },
  };
}

/**
 * Reloads profiles every second while the server listens. File system notifications miss network mounts and the links of
 * a Kubernetes config map.
 */
export function watchProfiles(app: FastifyInstance, profiles: Pick<Profiles, 'reload'>): void {
  const closing = new AbortController();
  let running: Promise<void> | undefined;
  async function watch({ signal }: AbortController): Promise<void> {
    while (!signal.aborted) {
      await profiles.reload();
      await sleep(POLL_MS, undefined, { signal, ref: false }).catch(() => undefined);
    }
  }
  app.addHook('onListen', (done) => {
    running = watch(closing);
    done();
  });
  app.addHook('onClose', async () => {
    closing.abort();
    await running;
  });
}

const indexById = ({ profiles }: Folder): ReadonlyMap<string, Profile> =>
  new Map([...profiles.values()].map(({ profile }) => [profile.profile_id, profile]));

/**
 * Reads all files. An invalid file, such as one with the id of another file, keeps its last valid profile.
 * @param previous Profiles of the last call, by file name.
 */
async function readFolder(
  paths: readonly string[],
  rules: ProfileRules,
  previous: Folder['profiles'] = new Map(),
): Promise<Folder> {
  const faults: FileFault[] = [];
  const addFault = (file: string, line: number, rule: string) =>
    faults.push({ file, message: `${file}:${line} ${rule}` });
  const parsed = new Map<string, ParsedProfile | undefined>();
  for (const path of paths) {
    const file = basename(path);
    const content = await readProfileFile(path, rules);
    parsed.set(file, 'profile' in content ? content : undefined);
    if ('faults' in content) {
      for (const { line, rule } of content.faults) addFault(file, line, rule);
    }
  }
  const hasNewId = (file: string) =>
    getId(parsed.get(file) ?? previous.get(file)) !== getId(previous.get(file));
  const profiles = new Map<string, ParsedProfile>();
  const findOwner = (id: string | undefined) =>
    [...profiles].find(([, { profile }]) => profile.profile_id === id);
  const files = [...parsed.keys()];
  // A file that keeps its id has precedence over a file that takes the id.
  for (const file of files.toSorted((a, b) => Number(hasNewId(a)) - Number(hasNewId(b)))) {
    const next = parsed.get(file);
    const [owner, { idLine = 0 } = {}] = (next && findOwner(getId(next))) ?? [];
    if (next !== undefined && owner !== undefined) {
      addFault(file, next.idLine, `profile_id must differ from the one in ${owner}:${idLine}`);
    }
    const own = owner === undefined ? (next ?? previous.get(file)) : previous.get(file);
    if (own !== undefined && findOwner(getId(own)) === undefined) profiles.set(file, own);
  }
  const inOrder = files.flatMap((file) => [...profiles].filter(([name]) => name === file));
  return { profiles: new Map(inOrder), faults };
}

const getId = (parsed: ParsedProfile | undefined) => parsed?.profile.profile_id;

/**
 * Returns the paths of the `.yaml` and `.yml` files of a folder, sorted by name.
 * @throws StartError when the folder is unreadable, or has no such file or too many.
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

/** Returns a text that differs after every change of the files. No program can set the change time (ctime). */
async function readState(paths: readonly string[]): Promise<string> {
  const states: string[] = [];
  for (const path of paths) {
    const info = await stat(path, { bigint: true }).catch(formatReason);
    const state =
      typeof info === 'string' ? info : [info.dev, info.ino, info.size, info.mtimeNs, info.ctimeNs];
    states.push(`${path}\0${String(state)}`);
  }
  return states.join('\0');
}
