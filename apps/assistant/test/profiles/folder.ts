import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after } from 'node:test';
import type { ProfileFolder } from '../../src/profiles/load.ts';
import type { Profile } from '../../src/profiles/profile.ts';

/** A folder with files of these texts, for the tests of a file. */
export async function folderOf(files: Record<string, string | Uint8Array>): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'oselya-profiles-'));
  after(() => rm(folder, { recursive: true }));
  for (const [name, text] of Object.entries(files)) await writeFile(join(folder, name), text);
  return folder;
}

/** The text of a profile file. */
export const profile = (id: string, more = '') =>
  `profile_id: ${id}\nname: ${id}\nsystem: Help.\n${more}`;

/** Profiles as if they had been read of files of their own. */
export const readAs = (profiles: readonly Profile[]): ProfileFolder => ({
  loaded: new Map(profiles.map((one) => [`${one.profile_id}.yaml`, { profile: one, idLine: 1 }])),
  faults: [],
});
