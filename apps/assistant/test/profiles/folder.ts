import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after } from 'node:test';
import { openProfiles } from '../../src/profiles/profiles.ts';
import { PROFILE_TOOLS } from '../../src/conversations/tools/tools.ts';

/** Creates a folder with files by name. It is deleted after the test file. */
export async function createFolder(files: Record<string, string | Uint8Array>): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'oselya-profiles-'));
  after(() => rm(folder, { recursive: true }));
  for (const [name, text] of Object.entries(files)) await writeFile(join(folder, name), text);
  return folder;
}

/** Returns the text of a profile file. */
export const profile = (id: string, extraLines = '') =>
  `profile_id: ${id}\nname: ${id}\nsystem: Help.\n${extraLines}`;

type Options = Partial<Parameters<typeof openProfiles>[0]>;

const silentLog = { info: () => undefined, error: () => undefined };

/** Opens the profiles of a folder, without a log unless one is given. */
export const openFolder = (folder: string, options: Options = {}) =>
  openProfiles({ folder, toolNames: PROFILE_TOOLS, log: silentLog, ...options });
