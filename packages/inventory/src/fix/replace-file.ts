import { chown, readFile, realpath, rename, rm, stat, writeFile } from 'node:fs/promises';

/**
 * Replaces a file at once, so that it is the old one or the new one whatever happens. A symbolic link goes on
 * leading to it; other hard links keep the old text.
 * @param before What it held when it was read.
 * @returns False when it holds something else by now, and is left as it is.
 * @throws What the file system throws.
 */
export async function replaceFile(file: string, before: Buffer, text: string): Promise<boolean> {
  const path = await realpath(file);
  const { mode, uid, gid } = await stat(path);
  const next = `${path}.${process.pid}.tmp`;
  try {
    await writeFile(next, text, { mode, flag: 'wx' });
    // Only an administrator can give a file away; from others it is theirs from now on.
    await chown(next, uid, gid).catch(() => undefined);
    const now = await readFile(path);
    if (!now.equals(before)) return false;
    await rename(next, path);
    return true;
  } finally {
    await rm(next, { force: true });
  }
}
