import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { openFolder } from '@oselya/testing';
import { openProfiles } from '../../src/profiles/profiles.ts';
import { PROFILE_TOOLS } from '../../src/conversations/tools/tools.ts';

/** Creates a folder with the given files, by name. The folder is deleted after the test file. */
export async function createFolder(files: Record<string, string | Uint8Array>): Promise<string> {
  const folder = await openFolder();
  for (const [name, text] of Object.entries(files)) await writeFile(join(folder, name), text);
  return folder;
}

/** Returns the text of a profile file. */
export const profile = (id: string, extraLines = '') =>
  `profile_id: ${id}\nname: ${id}\nsystem: Help.\n${extraLines}`;

type Options = Partial<Parameters<typeof openProfiles>[0]>;

const silentLog = { info: () => undefined, error: () => undefined };

/** Opens the profiles of a folder. Logs nothing by default. */
export const openTestProfiles = (folder: string, options: Options = {}) =>
  openProfiles({ folder, toolNames: PROFILE_TOOLS, log: silentLog, ...options });
