import { randomUUID } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { mkdir, rename, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { Readable } from 'node:stream';
import { Disk } from 'flydrive';
import { FSDriver } from 'flydrive/drivers/fs';

/** Keeps pictures under the SHA-256 of their bytes, so that equal ones are one file. */
export type ImageStore = {
  /** Stores a file's content, unless it is there already; the file itself stays. */
  put(sha256: string, path: string): Promise<void>;
  /** Whether the content is there. */
  has(sha256: string): Promise<boolean>;
  read(sha256: string): Promise<Buffer>;
  stream(sha256: string): Promise<Readable>;
};

/** A store in a folder: `ab/cd/abcd…`, so that no folder gets too many entries. */
export function createImageStore(folder: string): ImageStore {
  const disk = new Disk(new AtomicFolder({ location: folder, visibility: 'private' }));
  return {
    async put(sha256, path) {
      const key = keyOf(sha256);
      if (await disk.exists(key)) return;
      await disk.putStream(key, createReadStream(path));
    },
    has: (sha256) => disk.exists(keyOf(sha256)),
    read: async (sha256) => Buffer.from(await disk.getBytes(keyOf(sha256))),
    stream: (sha256) => disk.getStream(keyOf(sha256)),
  };
}

const INCOMING = 'incoming';

/** Where unfinished files of a store are. */
export function incomingFolder(folder: string): string {
  return join(folder, INCOMING);
}

function keyOf(sha256: string): string {
  return `${sha256.slice(0, 2)}/${sha256.slice(2, 4)}/${sha256}`;
}

/** flydrive writes a file in place: a crash would leave half a picture under the name of a whole one. */
class AtomicFolder extends FSDriver {
  override async putStream(...[key, contents, options]: Parameters<FSDriver['putStream']>) {
    const unfinished = `${INCOMING}/${randomUUID()}`;
    const { location } = this.options;
    try {
      await super.putStream(unfinished, contents, options);
      const target = join(String(location), key);
      await mkdir(dirname(target), { recursive: true });
      await rename(join(String(location), unfinished), target);
    } catch (error) {
      await rm(join(String(location), unfinished), { force: true });
      throw error;
    }
  }
}
