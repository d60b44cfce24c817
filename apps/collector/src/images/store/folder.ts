import { randomUUID } from 'node:crypto';
import { constants, copyFile, mkdir, rename, rm, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { Disk } from 'flydrive';
import { FSDriver } from 'flydrive/drivers/fs';

/** Where the file system can, the copy is one of names only; the name must be free. */
const COPY_MODE = constants.COPYFILE_FICLONE | constants.COPYFILE_EXCL;

/**
 * A folder of this machine as a disk.
 * @param temporary Gives a folder on the same file system for files that are not complete yet.
 */
export function openFolder(folder: string, temporary: () => string): Disk {
  return new FolderDisk(new AtomicFolder(folder, temporary));
}

class FolderDisk extends Disk {
  readonly #folder: AtomicFolder;

  constructor(folder: AtomicFolder) {
    super(folder);
    this.#folder = folder;
  }

  /** The operating system copies: the content never is in this process's memory. */
  override copyFromFs(source: string | URL, key: string): Promise<void> {
    return this.#folder.add(key, (unfinished) => copyFile(source, unfinished, COPY_MODE));
  }
}

/** flydrive writes a file in place: a crash would leave half a picture under the name of a whole one. */
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

  /** Adds a file that is written elsewhere, and comes to its place when it is complete. */
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
