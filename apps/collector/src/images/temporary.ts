import { createHash, randomUUID } from 'node:crypto';
import type { Dirent } from 'node:fs';
import { open, readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { DatabaseError, type FolderLock, lockFolder } from '@oselya/db';
import { MEBIBYTE } from '../schemas.ts';
import { isNotFoundError } from './backends.ts';

/** Maximum size of an image in bytes. Contract 4, Images; Specification 001, Limits. */
export const MAX_IMAGE_BYTES = 50 * MEBIBYTE;

/** A received file, which the caller removes. */
export type TemporaryFile = { path: string; sha256: string; bytes: number };

/** A file that was uploaded with a payload, and the name that the client gave it. */
export type UploadedFile = TemporaryFile & { name: string };

/**
 * Writes chunks to a temporary file, and hashes and counts their bytes. Removes the file on failure.
 * @param onBytes Called with the number of bytes so far. It may throw to stop the write.
 * @throws Errors of `chunks` and `onBytes`; local errors such as a full disk.
 */
export async function saveTemporary(
  folder: string,
  chunks: AsyncIterable<Uint8Array>,
  onBytes: (bytes: number) => void,
): Promise<TemporaryFile> {
  const path = join(folder, randomUUID());
  const hash = createHash('sha256');
  let bytes = 0;
  async function* measure() {
    for await (const chunk of chunks) {
      bytes += chunk.length;
      onBytes(bytes);
      hash.update(chunk);
      yield chunk;
    }
  }
  // Open the file here: a stream would open its path later, and could create the file after its removal.
  const file = await open(path, 'wx');
  try {
    await pipeline(measure, file.createWriteStream());
  } catch (error) {
    await rm(path, { force: true });
    throw error;
  } finally {
    await file.close();
  }
  return { path, sha256: hash.digest('hex'), bytes };
}

const MAX_FOLDER_ATTEMPTS = 5;

/**
 * Creates the handle of this process's temporary folder in `parent`. The process holds a lock on its folder, so that
 * other processes recognize the folders of killed processes.
 */
export function createTemporaryFolder(parent: string) {
  let currentFolder: LockedFolder | undefined;
  return {
    /** Returns the folder of this process. The first call creates it. */
    path: (): string => {
      currentFolder ??= createLockedFolder(parent);
      return currentFolder.path;
    },
    /** Removes the folders of ended processes, and stray files. */
    sweep: async (): Promise<void> => {
      const entries = await readdir(parent, { withFileTypes: true }).catch((error: unknown) => {
        if (isNotFoundError(error)) return [];
        throw error;
      });
      for (const entry of entries) {
        if (join(parent, entry.name) !== currentFolder?.path) await removeUnlessLocked(entry);
      }
    },
    /** Removes the folder of this process. */
    close: async (): Promise<void> => {
      if (currentFolder === undefined) return;
      const { path, lock } = currentFolder;
      currentFolder = undefined;
      await rm(path, { recursive: true, force: true });
      lock.release();
    },
  };
}

type LockedFolder = { path: string; lock: FolderLock };

/** Creates and locks a folder. Tries several names, because the sweep of another process may lock a folder first. */
function createLockedFolder(parent: string): LockedFolder {
  for (let attempt = 1; ; attempt += 1) {
    const path = join(parent, randomUUID());
    try {
      return { path, lock: lockFolder(path) };
    } catch (error) {
      if (attempt === MAX_FOLDER_ATTEMPTS) throw error;
    }
  }
}

async function removeUnlessLocked(entry: Dirent): Promise<void> {
  const path = join(entry.parentPath, entry.name);
  let lock: FolderLock | undefined;
  try {
    if (entry.isDirectory()) lock = lockFolder(path);
  } catch (error) {
    if (error instanceof DatabaseError) return;
    throw error;
  }
  await rm(path, { recursive: true, force: true });
  lock?.release();
}
