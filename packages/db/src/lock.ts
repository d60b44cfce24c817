import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { DatabaseError } from './errors.ts';

export type FolderLock = { release(): void };

/**
 * Takes the folder for this process alone, creating it when it is missing. The lock is the operating
 * system's lock on a SQLite file, so it ends with the process however that ends, and a lock left
 * behind by a killed process never has to be removed by hand.
 * @throws DatabaseError FOLDER_LOCKED while another process holds the folder.
 */
export function lockFolder(folder: string): FolderLock {
  mkdirSync(folder, { recursive: true });
  const file = new DatabaseSync(join(folder, 'lock'));
  try {
    file.exec('begin exclusive');
  } catch (error) {
    file.close();
    throw new DatabaseError(
      'FOLDER_LOCKED',
      `The data folder ${folder} is in use by another Oselya process: stop that one, or set DATA_DIR to another folder`,
      { cause: error },
    );
  }
  return { release: () => file.close() };
}
