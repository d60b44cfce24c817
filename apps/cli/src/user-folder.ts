import { homedir } from 'node:os';
import { join } from 'node:path';

/** What a user decided, such as to be signed in; and what may be lost, but is worth keeping until the next run. */
export type FolderKind = 'config' | 'state';

const XDG = { config: 'XDG_CONFIG_HOME', state: 'XDG_STATE_HOME' } as const;
const BELOW_HOME = { config: ['.config'], state: ['.local', 'state'] } as const;
const WINDOWS = { config: 'APPDATA', state: 'LOCALAPPDATA' } as const;
const BELOW_APPDATA = { config: 'Roaming', state: 'Local' } as const;

/**
 * The user's folder for files of one kind that commands keep; it need not be there yet. XDG Base Directory
 * Specification.
 */
export function userFolder(kind: FolderKind, env: NodeJS.ProcessEnv): string {
  const home = env['HOME'] || homedir();
  const folder =
    process.platform === 'win32'
      ? env[WINDOWS[kind]] || join(home, 'AppData', BELOW_APPDATA[kind])
      : env[XDG[kind]] || join(home, ...BELOW_HOME[kind]);
  return join(folder, 'oselya');
}
