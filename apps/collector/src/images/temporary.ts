import { createHash, randomUUID } from 'node:crypto';
import type { Dirent } from 'node:fs';
import { open, readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { DatabaseError, type FolderLock, lockFolder } from '@oselya/db';
import { MEBIBYTE } from '../schemas.ts';

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

/** How often the files of killed processes are looked for. */
const SWEEP_MS = 10 * 60_000;

/** Another process that starts may take a new folder for an abandoned one, so a few names are tried. */
const ATTEMPTS = 5;

/** Where a process keeps files that are not complete yet. */
export type TemporaryFolder = {
  /** Returns the folder of this process, which it creates at first. */
  path: () => string;
  /** Removes the folders of processes that are gone. */
  sweep: () => Promise<void>;
  /** Removes the folder with all that is in it. */
  close: () => Promise<void>;
};

/**
 * Creates the temporary folder of this process among those of others in `parent`. Each process locks its own; the
 * lock ends with the process, so the files of killed processes are recognized and removed.
 * @param onError Called when a sweep fails.
 */
export function createTemporaryFolder(
  parent: string,
  onError: (error: unknown) => void,
): TemporaryFolder {
  let own: { name: string; lock: FolderLock } | undefined;

  async function sweep(): Promise<void> {
    const found = readdir(parent, { withFileTypes: true });
    const entries = await found.catch(ifMissing<Dirent[]>([]));
    for (const entry of entries) {
      if (entry.name !== own?.name) await removeUnlessLocked(entry);
    }
  }

  const timer = setInterval(() => void sweep().catch(onError), SWEEP_MS);
  timer.unref();

  return {
    path() {
      own ??= createFolder(parent);
      return join(parent, own.name);
    },
    sweep,
    async close() {
      clearInterval(timer);
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

/** Tells whether an error, or its cause, says that a file or an object of the store is not there. */
export function isMissing(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  const isCode = 'code' in error && error.code === 'ENOENT';
  return isCode || error.name === 'NoSuchKey' || isMissing(error.cause);
}

/** Returns a handler of failures that gives a value where a file is missing, and else rethrows. */
export function ifMissing<Value>(value: Value): (error: unknown) => Value {
  return (error) => {
    if (isMissing(error)) return value;
    throw error;
  };
}
