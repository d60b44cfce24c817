import { readdir, readFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { StartError } from '@oselya/kit';
import { parseProfile } from './parse.ts';
import type { Profile } from './profile.ts';

/** The profiles that come with the assistant. */
export const SHIPPED_PROFILES = fileURLToPath(new URL('../../profiles', import.meta.url));

/** Far more text than a model takes. */
export const MAX_FILE_BYTES = 256 * 1024;

/** Far more agents than anybody chooses among: their files are looked at every second. */
export const MAX_FILES = 200;

/** A profile as its file had it when it was good. */
export type LoadedProfile = { profile: Profile; idLine: number };

/** What is wrong with a profile file. */
export type ProfileFault = {
  /** Its name within the folder. */
  file: string;
  /** With the line: `default.yaml:3 name must be 1 to 100 characters`. */
  message: string;
};

/** What a folder of profiles gives. */
export type ProfileFolder = {
  /** By the names of their files, in their order; with ids that differ. */
  loaded: ReadonlyMap<string, LoadedProfile>;
  faults: readonly ProfileFault[];
};

const EMPTY: ProfileFolder = { loaded: new Map(), faults: [] };

/** What a file gives: its profile, or what is wrong with it. */
type Parsed = ReturnType<typeof parseProfile>;

/** The rule that a profile breaks which is good by itself, by where it is to be used; nothing where it breaks none. */
export type CheckProfile = (profile: Profile) => string | undefined;

/**
 * Reads the agent profiles of a folder for the first time. Contract 3, Profiles.
 * @param check Beside the form of the files.
 * @returns At least one profile.
 * @throws StartError with everything that is wrong with any of the files, each with its line.
 */
export async function loadProfiles(folder: string, check?: CheckProfile): Promise<ProfileFolder> {
  const contents = new Map<string, Parsed>();
  for (const path of await listProfileFiles(folder)) {
    contents.set(path, await readProfile(path, check));
  }
  const read = toProfiles(contents, EMPTY);
  if (read.faults.length > 0) {
    const faults = read.faults.map(({ message }) => join(folder, message));
    throw new StartError(`Agent profiles cannot be used:\n  ${faults.join('\n  ')}`);
  }
  return read;
}

/**
 * The profiles of a folder, of what its files give. A file that is bad keeps the profile that it had when it was good;
 * one that is gone takes its profile with it.
 * @param contents By the paths of the files, in their order.
 * @param held What was read before.
 */
export function toProfiles(
  contents: ReadonlyMap<string, Parsed>,
  held: ProfileFolder,
): ProfileFolder {
  const faults: ProfileFault[] = [];
  const parsed = new Map<string, LoadedProfile>();
  const files: string[] = [];
  for (const [path, read] of contents) {
    const file = basename(path);
    files.push(file);
    if ('profile' in read) parsed.set(file, read);
    else {
      faults.push(
        ...read.faults.map(({ line, rule }) => ({ file, message: `${file}:${line} ${rule}` })),
      );
    }
  }
  const { owners, doubles } = ownersOfIds(files, parsed, held);
  const loaded = new Map<string, LoadedProfile>();
  for (const file of files) {
    const profiles = [parsed.get(file), held.loaded.get(file)];
    const own = profiles.find((one) => one && owners.get(one.profile.profile_id) === file);
    if (own !== undefined) loaded.set(file, own);
  }
  return { loaded, faults: [...faults, ...doubles] };
}

/**
 * Which file each id belongs to: the one that has had it, else the first.
 * @returns With what is wrong with the other files that claim it.
 */
function ownersOfIds(
  files: readonly string[],
  parsed: ReadonlyMap<string, LoadedProfile>,
  { loaded: held }: ProfileFolder,
): { owners: ReadonlyMap<string, string>; doubles: ProfileFault[] } {
  const owners = new Map<string, string>();
  const idIn = (loaded: ReadonlyMap<string, LoadedProfile>, file: string) =>
    loaded.get(file)?.profile.profile_id;
  for (const file of files) {
    const had = idIn(held, file);
    // A file that is bad now has its id still.
    if (had !== undefined && (idIn(parsed, file) ?? had) === had) owners.set(had, file);
  }
  const doubles: ProfileFault[] = [];
  for (const file of files) {
    const claim = parsed.get(file);
    if (claim === undefined) continue;
    const { profile_id: id } = claim.profile;
    const owner = owners.get(id) ?? file;
    owners.set(id, owner);
    if (owner === file) continue;
    const place = `${owner}:${(parsed.get(owner) ?? held.get(owner))?.idLine}`;
    const rule = `profile_id must differ from the one in ${place}`;
    doubles.push({ file, message: `${file}:${claim.idLine} ${rule}` });
  }
  // What a file had before its new id was refused stays its own, unless another has taken it.
  for (const { file } of doubles) {
    const had = idIn(held, file);
    if (had !== undefined && !owners.has(had)) owners.set(had, file);
  }
  return { owners, doubles };
}

/**
 * The paths of the `.yaml` and `.yml` files of a folder, in the order of their names.
 * @throws StartError where the folder cannot be read, has no such file, or has too many.
 */
export async function listProfileFiles(folder: string): Promise<string[]> {
  const entries = await readdir(folder).catch((error: unknown) => {
    throw new StartError(
      `Agent profiles cannot be read (${reason(error)}): PROFILES_DIR must be a folder with a .yaml file for each profile`,
      { cause: error },
    );
  });
  const files = entries.filter((name) => /\.ya?ml$/.test(name)).toSorted();
  if (files.length === 0) {
    throw new StartError(
      `There is no agent profile in ${folder}: put a .yaml file there, or unset PROFILES_DIR to use those that come with the assistant`,
    );
  }
  if (files.length > MAX_FILES) {
    throw new StartError(
      `There are ${files.length} agent profiles in ${folder}, and at most ${MAX_FILES} are read: take some of them away`,
    );
  }
  return files.map((file) => join(folder, file));
}

/** What a profile file gives, by its path; it never throws. */
export async function readProfile(file: string, check?: CheckProfile): Promise<Parsed> {
  try {
    const bytes = await readFile(file);
    if (bytes.length > MAX_FILE_BYTES) {
      return { faults: [{ line: 1, rule: `must be at most ${MAX_FILE_BYTES / 1024} KiB` }] };
    }
    const parsed = parseProfile(new TextDecoder('utf-8', { fatal: true }).decode(bytes));
    if (!('profile' in parsed)) return parsed;
    const rule = check?.(parsed.profile);
    return rule === undefined ? parsed : { faults: [{ line: parsed.idLine, rule }] };
  } catch (error) {
    return { faults: [{ line: 1, rule: `cannot be read: ${reason(error)}` }] };
  }
}

function reason(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
