import { randomUUID } from 'node:crypto';
import type { Dirent } from 'node:fs';
import { readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { DatabaseError, type FolderLock, lockFolder } from '@oselya/db';
import { ifMissing } from './missing.ts';

/** How often what killed processes left is looked for. */
const SWEEP_MS = 10 * 60_000;

/** Another process that starts may take a new folder for one that was left, so a few names are tried. */
const ATTEMPTS = 5;

/** Where a process keeps files that are not complete yet. */
export type TemporaryFolder = {
  /** The folder for this process's temporary files; it is made when it is first asked for. */
  path: () => string;
  /** Removes what processes left that are gone. */
  sweep: () => Promise<void>;
  /** Removes the folder with all that is in it. */
  close: () => Promise<void>;
};

/**
 * A folder of this process among those of others in `parent`. Each process holds a lock on its own, which
 * the operating system takes back when the process ends, however it ends. So a killed process's files can
 * be told from those in use, and are removed at the start of another and then every ten minutes.
 * @param onError Told of a sweep that failed; the next one comes.
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
      if (entry.name !== own?.name) await removeUnlessHeld(entry);
    }
  }

  const timer = setInterval(() => void sweep().catch(onError), SWEEP_MS);
  timer.unref();

  return {
    path() {
      own ??= take(parent);
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

function take(parent: string): { name: string; lock: FolderLock } {
  for (let attempt = 1; ; attempt += 1) {
    const name = randomUUID();
    try {
      return { name, lock: lockFolder(join(parent, name)) };
    } catch (error) {
      if (attempt === ATTEMPTS) throw error;
    }
  }
}

async function removeUnlessHeld(entry: Dirent): Promise<void> {
  const path = join(entry.parentPath, entry.name);
  const lock = entry.isDirectory() ? tryLock(path) : undefined;
  if (entry.isDirectory() && lock === undefined) return;
  await rm(path, { recursive: true, force: true });
  lock?.release();
}

function tryLock(path: string): FolderLock | undefined {
  try {
    return lockFolder(path);
  } catch (error) {
    if (error instanceof DatabaseError) return undefined;
    throw error;
  }
}
