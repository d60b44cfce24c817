import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { DatabaseError } from './errors.ts';

/** A folder that is this process's, until it is released or the process ends. */
export type FolderLock = { release(): void };

/** SQLite's code for "somebody else holds the lock". */
const SQLITE_BUSY = 5;

/**
 * Takes the folder for this process alone, creating it when it is missing. The lock is the operating
 * system's lock on a SQLite file, so it ends with the process however that ends, and a lock left
 * behind by a killed process never has to be removed by hand.
 * @throws DatabaseError FOLDER_LOCKED while another process holds the folder; FOLDER_UNUSABLE where
 *   it cannot be created or written to.
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
    throw refusal(folder, error);
  }
  const held = file;
  return { release: () => held.close() };
}

// Beside the lock and not in it: a process that only opened and closed the locked file would end the
// lock where it holds that itself.
const pidFile = (folder: string) => join(folder, 'lock.pid');

/** Who took the folder last, in words; nothing where that cannot be read. */
function holder(folder: string): string {
  try {
    const pid = Number.parseInt(readFileSync(pidFile(folder), 'utf8'), 10);
    return Number.isNaN(pid) ? '' : ` (process ${pid})`;
  } catch {
    return '';
  }
}

function refusal(folder: string, error: unknown): DatabaseError {
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
