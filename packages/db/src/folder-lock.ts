import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { DatabaseError } from './errors.ts';

/** Exclusive lock on a folder. It ends when it is released or when the process ends. */
export type FolderLock = { release(): void };

const SQLITE_BUSY = 5;

/**
 * Locks a folder for this process, and creates the folder if it does not exist. Uses the file lock of a SQLite
 * database, which the operating system releases even if the process is killed.
 * @throws DatabaseError FOLDER_LOCKED if another process holds the lock, FOLDER_UNUSABLE if the folder cannot be
 *   created or written.
 */
export function lockFolder(folder: string): FolderLock {
  let lockFile: DatabaseSync | undefined;
  try {
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    lockFile = new DatabaseSync(join(folder, 'lock'));
    lockFile.exec('begin exclusive');
    writeFileSync(getPidFile(folder), `${process.pid}\n`);
  } catch (error) {
    lockFile?.close();
    throw createLockError(folder, error);
  }
  const lockedFile = lockFile;
  return { release: () => lockedFile.close() };
}

// A separate file, because opening and closing the locked file would release the lock of this process.
const getPidFile = (folder: string) => join(folder, 'lock.pid');

function describeHolder(folder: string): string {
  try {
    return ` (process ${readFileSync(getPidFile(folder), 'utf8').trim()})`;
  } catch {
    return '';
  }
}

function createLockError(folder: string, error: unknown): DatabaseError {
  if (error instanceof Error && 'errcode' in error && error.errcode === SQLITE_BUSY) {
    return new DatabaseError(
      'FOLDER_LOCKED',
      `The data folder ${folder} is in use by another Oselya process${describeHolder(folder)}: stop that process, or set DATA_DIR to a different folder`,
      { cause: error },
    );
  }
  const reason = error instanceof Error ? error.message : String(error);
  return new DatabaseError(
    'FOLDER_UNUSABLE',
    `The data folder ${folder} cannot be used (${reason}): make it writable, or set DATA_DIR to a different folder`,
    { cause: error },
  );
}
