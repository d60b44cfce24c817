import { readdir, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { incomingFolder } from './store.ts';

/** No download and no upload takes so long. */
const MAX_AGE_MS = 3_600_000;

/**
 * Removes the temporary files that killed processes left in an image store. Several processes may share
 * the folder, so young files stay: they may be in use.
 * @param folder The image store's; it need not be there yet.
 */
export async function removeLeftovers(folder: string): Promise<void> {
  const incoming = incomingFolder(folder);
  const names = await readdir(incoming).catch(unlessMissing([]));
  const oldest = Date.now() - MAX_AGE_MS;
  for (const name of names) {
    const path = join(incoming, name);
    // Another process may remove the same file, or end with it, at this moment.
    const entry = await stat(path).catch(unlessMissing(undefined));
    if (entry?.isFile() && entry.mtimeMs < oldest) await rm(path, { force: true });
  }
}

function unlessMissing<Value>(value: Value): (error: unknown) => Value {
  return (error) => {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return value;
    throw error;
  };
}
