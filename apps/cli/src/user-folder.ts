import { homedir } from 'node:os';
import { join } from 'node:path';

/**
 * Returns the user's folder for Oselya's settings, which may not exist yet.
 * @see https://specifications.freedesktop.org/basedir-spec
 */
export function configFolder(env: NodeJS.ProcessEnv): string {
  const home = env['HOME'] || homedir();
  const folder =
    process.platform === 'win32'
      ? env['APPDATA'] || join(home, 'AppData', 'Roaming')
      : env['XDG_CONFIG_HOME'] || join(home, '.config');
  return join(folder, 'oselya');
}
