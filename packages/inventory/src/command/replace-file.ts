import { randomUUID } from 'node:crypto';
import { constants, type Stats } from 'node:fs';
import { access, open, readFile, realpath, rename, rm, stat } from 'node:fs/promises';

/**
 * Replaces a file as {@link writeWhole} does, where nobody has changed it.
 * @param before What it held when it was read.
 * @returns False when it holds something else by now, and is left as it is.
 * @throws What the file system throws.
 */
export function replaceFile(file: string, before: Buffer, text: string): Promise<boolean> {
  return writeWhole(file, text, async (path) => (await readFile(path)).equals(before));
}

/**
 * Writes a file beside the one that there is, if there is one, and puts it in its place at once, so that it is the old
 * one or the new one whatever happens, a power cut included. A symbolic link goes on leading to it; other hard links
 * keep the old text.
 * @param isWanted Is asked last, of the path that no link leads from.
 * @returns Whether it was.
 * @throws What the file system throws.
 */
export async function writeWhole(
  file: string,
  text: string,
  isWanted: (path: string) => Promise<boolean> = () => Promise.resolve(true),
): Promise<boolean> {
  const { path, old } = await find(file);
  // No other run has this name, nor had one that was killed.
  const next = `${path}.${randomUUID()}.tmp`;
  try {
    await writeNew(next, text, old);
    if (!(await isWanted(path))) return false;
    await rename(next, path);
    return true;
  } finally {
    await rm(next, { force: true });
  }
}

/** Where a file is to be written, and what there is; what may not be written may not be replaced either. */
async function find(file: string): Promise<{ path: string; old?: Stats }> {
  try {
    const path = await realpath(file);
    await access(path, constants.W_OK);
    return { path, old: await stat(path) };
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return { path: file };
    throw error;
  }
}

async function writeNew(path: string, text: string, old: Stats | undefined): Promise<void> {
  await using opened = await open(path, 'wx', old?.mode);
  if (old !== undefined) {
    // Only an administrator can give a file away; from others it is theirs from now on.
    await opened.chown(old.uid, old.gid).catch(() => undefined);
    // The umask is for new files, and this one takes the place of an old one. Not every file system knows rights.
    await opened.chmod(old.mode).catch(() => undefined);
  }
  await opened.writeFile(text);
  // Else its name may be there after a power cut, and what is in it not.
  await opened.sync();
}
