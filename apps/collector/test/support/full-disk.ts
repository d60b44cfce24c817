import fs, { type FileHandle } from 'node:fs/promises';
import { syncBuiltinESMExports } from 'node:module';

/** Operation that fails after the first part of a file. */
export type Lack = 'writing' | 'copying';

/**
 * Simulates a full disk for a folder. The first part of each file is stored; then the operating system's error follows.
 * @returns The failing operation, which the test sets. Disposal restores the file system.
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

/** Replaces functions of `node:fs/promises`, also for named imports. */
function replace(functions: Partial<typeof fs>): void {
  Object.assign(fs, functions);
  syncBuiltinESMExports();
}
