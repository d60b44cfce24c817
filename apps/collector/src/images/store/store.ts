import type { Readable } from 'node:stream';
import { ifMissing } from '../missing.ts';
import type { StoreDisk } from './outage.ts';

/** Keeps pictures under the SHA-256 of their bytes, so that equal ones are one file. */
export type ImageStore = {
  /**
   * Stores a file's content, unless it is there already; the file itself stays. However many are stored at
   * once, the process has few of them in memory.
   */
  put(sha256: string, path: string): Promise<void>;
  /** Whether the content is there. */
  has(sha256: string): Promise<boolean>;
  /** The whole content: within a turn (see `decodeInTurn`), so that few are in memory at once. */
  read(sha256: string): Promise<Buffer>;
  stream(sha256: string): Promise<Readable>;
  /** The smaller copy that was stored; undefined where none was. */
  readThumbnail(sha256: string, side: number): Promise<Buffer | undefined>;
  putThumbnail(sha256: string, side: number, bytes: Uint8Array): Promise<void>;
  removeThumbnail(sha256: string, side: number): Promise<void>;
  /** Removes the content and its smaller copies, if they are there. */
  remove(sha256: string): Promise<void>;
  /** The pictures whose hash begins with these two hexadecimal digits, some at a time. */
  list(digits: string): AsyncIterable<readonly StoredFile[]>;
};

/** A picture in the store; when it came there is looked up only where it is asked. */
export type StoredFile = { sha256: string; storedAt: () => Promise<Date> };

/** The sizes of smaller copies: for lists, and for whoever looks closer, the vision model among them. */
export const SIDES = [320, 1024] as const;

/**
 * A store on a folder or a bucket: `ab/cd/abcd…`, so that no folder gets too many entries, and smaller
 * copies in `thumbnails/320/ab/cd/abcd…`. Those need no bound of their own: there are two sizes, so at
 * most two small files for each picture.
 */
export function createImageStore(disk: StoreDisk) {
  async function read(key: string): Promise<Buffer> {
    const { buffer, byteOffset, byteLength } = await disk.getBytes(key);
    // The same memory, not a copy of it.
    return Buffer.from(buffer, byteOffset, byteLength);
  }
  const store: ImageStore = {
    async put(sha256, path) {
      const key = keyOf(sha256);
      if (!(await disk.exists(key))) await disk.copyFromFs(path, key);
    },
    has: (sha256) => disk.exists(keyOf(sha256)),
    read: (sha256) => read(keyOf(sha256)),
    stream: (sha256) => disk.getStream(keyOf(sha256)),
    async readThumbnail(sha256, side) {
      const key = thumbnailKey(sha256, side);
      return (await disk.exists(key)) ? read(key) : undefined;
    },
    putThumbnail: (sha256, side, bytes) => disk.put(thumbnailKey(sha256, side), bytes),
    removeThumbnail: (sha256, side) => disk.delete(thumbnailKey(sha256, side)),
    async remove(sha256) {
      const copies = SIDES.map((side) => thumbnailKey(sha256, side));
      // The copies first: a removal that is cut off is made again for as long as the content is there. And again after
      // it, since one may have been stored in between (see thumbnails.ts).
      for (const key of [...copies, keyOf(sha256), ...copies]) await disk.delete(key);
    },
    async *list(digits) {
      let paginationToken: string | undefined;
      do {
        const options = { recursive: true, ...(paginationToken && { paginationToken }) };
        // A folder is made when its first picture comes.
        const page = await disk.listAll(digits, options).catch(ifMissing(NOTHING));
        yield [...page.objects].flatMap((file) =>
          file.isFile && IS_HASH.test(file.name)
            ? { sha256: file.name, storedAt: async () => (await file.getMetaData()).lastModified }
            : [],
        );
        ({ paginationToken } = page);
      } while (paginationToken !== undefined);
    },
  };
  return store;
}

function keyOf(sha256: string): string {
  return `${sha256.slice(0, 2)}/${sha256.slice(2, 4)}/${sha256}`;
}

function thumbnailKey(sha256: string, side: number): string {
  return `thumbnails/${side}/${keyOf(sha256)}`;
}

/** Whatever else lies there is somebody's. */
const IS_HASH = /^[0-9a-f]{64}$/;

const NOTHING: Awaited<ReturnType<StoreDisk['listAll']>> = { objects: [] };
