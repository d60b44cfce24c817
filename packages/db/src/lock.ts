import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { DatabaseError } from './errors.ts';

/** Exclusive use of a folder, until it is released or the process ends. */
export type FolderLock = { release(): void };

/** SQLite's code of a lock that another process holds. */
const SQLITE_BUSY = 5;

/**
 * Locks a folder for this process, and creates it when it is missing. The lock is the operating system's on a SQLite
 * file, so it ends with the process, also with a killed one.
 * @throws DatabaseError FOLDER_LOCKED while another process holds it; FOLDER_UNUSABLE where it is not writable.
 */
export function lockFolder(folder: string): FolderLock {
  let file: DatabaseSync | undefined;
  try {
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    file = new DatabaseSync(join(folder, 'lock'));
    file.exec('begin exclusive');
    writeFileSync(pidFile(folder), `${process.pid}\n`);
  } catch (error) {
    file?.close();
    throw lockError(folder, error);
  }
  const held = file;
  return { release: () => held.close() };
}

// Not in the locked file: to open and close that releases a lock that the same process holds.
const pidFile = (folder: string) => join(folder, 'lock.pid');

/** Returns the process that locked the folder last, in words; empty where that is unknown. */
function holder(folder: string): string {
  try {
    const pid = Number.parseInt(readFileSync(pidFile(folder), 'utf8'), 10);
    return Number.isNaN(pid) ? '' : ` (process ${pid})`;
  } catch {
    return '';
  }
}

function lockError(folder: string, error: unknown): DatabaseError {
  if (error instanceof Error && 'errcode' in error && error.errcode === SQLITE_BUSY) {
    return new DatabaseError(
      'FOLDER_LOCKED',
      `The data folder ${folder} is in use by another Oselya process${holder(folder)}: stop that one, or set DATA_DIR to another folder`,
      { cause: error },
    );
  }
  const reason = error instanceof Error ? error.message : String(error);
  return new DatabaseError(
    'FOLDER_UNUSABLE',
    `The data folder ${folder} cannot be used (${reason}): make it writable, or set DATA_DIR to another folder`,
    { cause: error },
  );
}
