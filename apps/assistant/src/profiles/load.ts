import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { StartError } from '@oselya/kit';
import { parseProfile } from './parse.ts';
import type { Profile } from './profile.ts';

/** The profiles that come with the assistant. */
export const SHIPPED_PROFILES = fileURLToPath(new URL('../../profiles', import.meta.url));

/** Far more text than a model takes. */
const MAX_FILE_BYTES = 256 * 1024;

/**
 * Reads the agent profiles: the `.yaml` and `.yml` files of a folder, in the order of their names.
 * Contract 3, Profiles.
 * @returns At least one profile, with ids that differ.
 * @throws StartError with everything that is wrong with any of the files, each with its line.
 */
export async function loadProfiles(folder: string): Promise<Profile[]> {
  const profiles: Profile[] = [];
  const places = new Map<string, string>();
  const faults: string[] = [];
  for (const file of await listFiles(folder)) {
    const parsed = await readProfile(file);
    if ('faults' in parsed) {
      faults.push(...parsed.faults.map(({ line, rule }) => `${file}:${line} ${rule}`));
      continue;
    }
    const { profile, idLine } = parsed;
    const place = `${file}:${idLine}`;
    const earlier = places.get(profile.profile_id);
    if (earlier !== undefined) {
      faults.push(`${place} profile_id must differ from the one in ${earlier}`);
    }
    places.set(profile.profile_id, place);
    profiles.push(profile);
  }
  if (faults.length > 0) {
    throw new StartError(`Agent profiles cannot be used:\n  ${faults.join('\n  ')}`);
  }
  return profiles;
}

async function listFiles(folder: string): Promise<string[]> {
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
  return files.map((name) => join(folder, name));
}

async function readProfile(file: string): Promise<ReturnType<typeof parseProfile>> {
  try {
    const bytes = await readFile(file);
    if (bytes.length > MAX_FILE_BYTES) {
      return { faults: [{ line: 1, rule: `must be at most ${MAX_FILE_BYTES / 1024} KiB` }] };
    }
    return parseProfile(new TextDecoder('utf-8', { fatal: true }).decode(bytes));
  } catch (error) {
    return { faults: [{ line: 1, rule: `cannot be read: ${reason(error)}` }] };
  }
}

function reason(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
