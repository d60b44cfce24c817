import { randomUUID } from 'node:crypto';
import { mkdir, rename, rm, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { Disk } from 'flydrive';
import { FSDriver } from 'flydrive/drivers/fs';

/**
 * A folder of this machine as a disk.
 * @param temporary Gives a folder on the same file system for files that are not complete yet.
 */
export function openFolder(folder: string, temporary: () => string): Disk {
  return new Disk(new AtomicFolder(folder, temporary));
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

  override async put(key: string, contents: string | Uint8Array): Promise<void> {
    const unfinished = join(this.#temporary(), randomUUID());
    const target = join(this.#folder, key);
    try {
      await writeFile(unfinished, contents, { flag: 'wx' });
      await mkdir(dirname(target), { recursive: true });
      await rename(unfinished, target);
    } catch (error) {
      await rm(unfinished, { force: true });
      throw error;
    }
  }
}
