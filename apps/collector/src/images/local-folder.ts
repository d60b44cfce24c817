import { randomUUID } from 'node:crypto';
import { constants, copyFile, mkdir, rename, rm, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { Disk } from 'flydrive';
import { FSDriver } from 'flydrive/drivers/fs';

/** Clones the file where the file system can; the target must not exist. */
const COPY_MODE = constants.COPYFILE_FICLONE | constants.COPYFILE_EXCL;

/**
 * Opens a folder of this machine as a disk.
 * @param temporary Returns a folder on the same file system for files that are not complete yet.
 */
export function openLocalFolder(folder: string, temporary: () => string): Disk {
  return new FolderDisk(new AtomicFolder(folder, temporary));
}

class FolderDisk extends Disk {
  readonly #folder: AtomicFolder;

  constructor(folder: AtomicFolder) {
    super(folder);
    this.#folder = folder;
  }

  override copyFromFs(source: string | URL, key: string): Promise<void> {
    return this.#folder.add(key, (unfinished) => copyFile(source, unfinished, COPY_MODE));
  }
}

/** flydrive writes files in place: a crash would leave half an image under the name of a whole one. */
class AtomicFolder extends FSDriver {
  readonly #folder: string;
  readonly #temporary: () => string;

  constructor(folder: string, temporary: () => string) {
    super({ location: folder, visibility: 'private' });
    this.#folder = folder;
    this.#temporary = temporary;
  }

  override put(key: string, contents: string | Uint8Array): Promise<void> {
    return this.add(key, (unfinished) => writeFile(unfinished, contents, { flag: 'wx' }));
  }

  /** Writes a file elsewhere, and renames it when it is complete. */
  async add(key: string, write: (unfinished: string) => Promise<void>): Promise<void> {
    const unfinished = join(this.#temporary(), randomUUID());
    const target = join(this.#folder, key);
    try {
      await write(unfinished);
      await mkdir(dirname(target), { recursive: true });
      await rename(unfinished, target);
    } catch (error) {
      await rm(unfinished, { force: true });
      throw error;
    }
  }
}
