import fs, { type FileHandle } from 'node:fs/promises';
import { syncBuiltinESMExports } from 'node:module';

/** What a disk has no room for: the second part of a file that is written piece by piece, or of a copy. */
export type Lack = 'writing' | 'copying';

/**
 * Makes a folder one of a disk that fills: while something is lacking, it takes the first part of each file
 * and no more. What the process sees is the error of the operating system's own full device.
 * @returns What the disk lacks, which a test sets; the end of its scope gives the file system back.
 */
export function fillableDisk(folder: string): { lacks: Lack | undefined } & Disposable {
  const { open, copyFile, readFile, writeFile } = fs;
  const disk = {
    lacks: undefined as Lack | undefined,
    [Symbol.dispose]: () => replace({ open, copyFile }),
  };
  const isHere = (path: unknown) => String(path).startsWith(folder);

  replace({
    async open(path, ...how) {
      const file = await open(path, ...how);
      return disk.lacks === 'writing' && isHere(path) ? takingOnePiece(file) : file;
    },
    async copyFile(source, target, mode) {
      if (disk.lacks !== 'copying' || !isHere(target)) return copyFile(source, target, mode);
      const content = await readFile(source);
      await writeFile(target, content.subarray(0, content.length / 2));
      return outOfSpace();
    },
  });
  return disk;

  async function outOfSpace(): Promise<never> {
    const full = await open('/dev/full', 'w');
    try {
      await full.write('more');
    } finally {
      await full.close();
    }
    throw new Error('The full device took something');
  }

  function takingOnePiece(file: FileHandle): FileHandle {
    const write = file.write.bind(file);
    let pieces = 0;
    return Object.assign(file, {
      write(content: Uint8Array, offset?: number, length?: number, position?: number | null) {
        pieces += 1;
        return pieces === 1 ? write(content, offset, length, position) : outOfSpace();
      },
      writev: outOfSpace,
    });
  }
}

/** For all who import them by name too. */
function replace(functions: Partial<typeof fs>): void {
  Object.assign(fs, functions);
  syncBuiltinESMExports();
}
