import { createHash, randomUUID } from 'node:crypto';
import type { Dirent } from 'node:fs';
import { open, readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { DatabaseError, type FolderLock, lockFolder } from '@oselya/db';
import { MEBIBYTE } from '../schemas.ts';
import { isMissing } from './store.ts';

/** Bytes of one image, fetched or uploaded. Contract 4, Images; Specification 001, Limits. */
export const MAX_IMAGE_BYTES = 50 * MEBIBYTE;

/** A received file; its owner removes it. */
export type TemporaryFile = { path: string; sha256: string; bytes: number };

/** A file that came with a payload, and the name that its sender gave it. */
export type UploadedFile = TemporaryFile & { name: string };

/**
 * Writes chunks into a temporary file, hashing and counting them. No file stays behind a failure.
 * @param onBytes Called with the bytes so far; what it throws ends the file.
 * @throws What `chunks` or `onBytes` throw; anything else is a failure of this machine, such as a full disk.
 */
export async function saveTemporary(
  folder: string,
  chunks: AsyncIterable<Uint8Array>,
  onBytes: (bytes: number) => void,
): Promise<TemporaryFile> {
  const path = join(folder, randomUUID());
  const hash = createHash('sha256');
  let bytes = 0;
  async function* measured() {
    for await (const chunk of chunks) {
      bytes += chunk.length;
      onBytes(bytes);
      hash.update(chunk);
      yield chunk;
    }
  }
  // Opened first: a stream that opens by itself can create the file after its failure was cleaned up.
  const file = await open(path, 'wx');
  try {
    await pipeline(measured, file.createWriteStream());
  } catch (error) {
    await rm(path, { force: true });
    throw error;
  } finally {
    await file.close();
  }
  return { path, sha256: hash.digest('hex'), bytes };
}

/** Another process that starts may take a new folder for an abandoned one, so a few names are tried. */
const ATTEMPTS = 5;

/** Files of a process that are not complete yet. */
export type TemporaryFolder = ReturnType<typeof createTemporaryFolder>;

/**
 * Creates the temporary folder of this process among those of others in `parent`. Each process locks its own; the
 * lock ends with the process, so the folders of killed processes are recognized and removed.
 */
export function createTemporaryFolder(parent: string) {
  let own: { name: string; lock: FolderLock } | undefined;
  return {
    /** Returns the folder of this process, which the first call creates. */
    path: (): string => {
      own ??= createFolder(parent);
      return join(parent, own.name);
    },
    /** Removes the folders of processes that are gone. */
    sweep: async (): Promise<void> => {
      const entries = await readdir(parent, { withFileTypes: true }).catch((error: unknown) => {
        if (isMissing(error)) return [];
        throw error;
      });
      for (const entry of entries) {
        if (entry.name !== own?.name) await removeUnlessLocked(entry);
      }
    },
    /** Removes the folder with all its files. */
    close: async (): Promise<void> => {
      if (own === undefined) return;
      const { name, lock } = own;
      own = undefined;
      await rm(join(parent, name), { recursive: true, force: true });
      lock.release();
    },
  };
}

function createFolder(parent: string): { name: string; lock: FolderLock } {
  for (let attempt = 1; ; attempt += 1) {
    const name = randomUUID();
    try {
      return { name, lock: lockFolder(join(parent, name)) };
    } catch (error) {
      if (attempt === ATTEMPTS) throw error;
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
