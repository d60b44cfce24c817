import { randomUUID } from 'node:crypto';
import { chmod, mkdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { homedir } from 'node:os';
import { dirname, join } from 'node:path';
import { Type } from 'typebox';
import { Value } from 'typebox/value';
import { CommandError } from '../command.ts';
import { parseJson } from '../http.ts';
import { type SessionCookie, sessionCookieSchema } from './assistant-client.ts';

const cookieFileSchema = Type.Record(Type.String(), sessionCookieSchema);

const FILE_MODE = 0o600;
const FOLDER_MODE = 0o700;

/**
 * Store of session cookies, one per assistant, in a file that only the user can read:
 * `oselya/sign-ins.json` in the user's configuration folder (XDG Base Directory Specification; `APPDATA` on Windows).
 */
export class SessionCookieStore {
  readonly path: string;

  constructor(env: NodeJS.ProcessEnv) {
    this.path = join(getConfigFolder(env), 'sign-ins.json');
  }

  /** Returns the session cookie for an assistant, if any. */
  async find(url: string): Promise<SessionCookie | undefined> {
    const cookies = await this.#read();
    return Object.hasOwn(cookies, url) ? cookies[url] : undefined;
  }

  async save(url: string, cookie: SessionCookie): Promise<void> {
    await this.#write({ ...(await this.#read()), [url]: cookie });
  }

  async delete(url: string): Promise<void> {
    const { [url]: _deletedCookie, ...otherCookies } = await this.#read();
    await this.#write(otherCookies);
  }

  async #read(): Promise<Record<string, SessionCookie>> {
    const text = await readFile(this.path, 'utf8').catch((error: NodeJS.ErrnoException) => {
      if (error.code === 'ENOENT') return '{}';
      throw this.#createError('read', error);
    });
    const cookies = parseJson(text);
    if (Value.Check(cookieFileSchema, cookies)) return cookies;
    throw new CommandError(`${this.path} is damaged: delete it and sign in again`);
  }

  /** Replaces the file atomically, because another command may be reading it. */
  async #write(cookies: Record<string, SessionCookie>): Promise<void> {
    const draftPath = `${this.path}.${randomUUID()}`;
    try {
      await mkdir(dirname(this.path), { recursive: true, mode: FOLDER_MODE });
      await writeFile(draftPath, `${JSON.stringify(cookies, null, 2)}\n`, { mode: FILE_MODE });
      // The umask may have removed the user's own permissions.
      await chmod(draftPath, FILE_MODE);
      await rename(draftPath, this.path);
    } catch (error) {
      await rm(draftPath, { force: true });
      throw this.#createError('write', error);
    }
  }

  #createError(operation: 'read' | 'write', error: unknown): CommandError {
    const reason = (error as NodeJS.ErrnoException).code ?? String(error);
    return new CommandError(
      `cannot ${operation} ${this.path} (${reason}): it keeps the sign-in of this terminal; set XDG_CONFIG_HOME to a folder of yours`,
      { cause: error },
    );
  }
}

/**
 * Returns the user's configuration folder for Oselya. The folder may not exist yet.
 * @see https://specifications.freedesktop.org/basedir-spec
 */
function getConfigFolder(env: NodeJS.ProcessEnv): string {
  const homeFolder = env['HOME'] || homedir();
  const folder =
    process.platform === 'win32'
      ? env['APPDATA'] || join(homeFolder, 'AppData', 'Roaming')
      : env['XDG_CONFIG_HOME'] || join(homeFolder, '.config');
  return join(folder, 'oselya');
}
