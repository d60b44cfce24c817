import fs, { type FileHandle } from 'node:fs/promises';
import { syncBuiltinESMExports } from 'node:module';

/** Operation that fails after the first part of a file. */
export type DiskOperation = 'writing' | 'copying';

/**
 * Simulates a full disk for a folder. The first part of each file is stored, and then the operation fails with
 * the error of the operating system.
 * @returns The failing operation, which the test sets. Disposal restores the file system.
 */
export function simulateFullDisk(
  folder: string,
): { failingOperation: DiskOperation | undefined } & Disposable {
  const { open, copyFile, readFile, writeFile } = fs;
  const disk = {
    failingOperation: undefined as DiskOperation | undefined,
    [Symbol.dispose]: () => replace({ open, copyFile }),
  };
  const isInFolder = (path: unknown) => String(path).startsWith(folder);

  replace({
    async open(path, ...openArguments) {
      const file = await open(path, ...openArguments);
      return disk.failingOperation === 'writing' && isInFolder(path)
        ? failAfterFirstWrite(file)
        : file;
    },
    async copyFile(source, target, mode) {
      if (disk.failingOperation !== 'copying' || !isInFolder(target))
        return copyFile(source, target, mode);
      const content = await readFile(source);
      await writeFile(target, content.subarray(0, content.length / 2));
      return throwNoSpaceError();
    },
  });
  return disk;

  async function throwNoSpaceError(): Promise<never> {
    const fullDevice = await open('/dev/full', 'w');
    try {
      await fullDevice.write('more');
    } finally {
      await fullDevice.close();
    }
    throw new Error('The full device accepted data');
  }

  function failAfterFirstWrite(file: FileHandle): FileHandle {
    const write = file.write.bind(file);
    let writeCount = 0;
    return Object.assign(file, {
      write(content: Uint8Array, offset?: number, length?: number, position?: number | null) {
        writeCount += 1;
        return writeCount === 1 ? write(content, offset, length, position) : throwNoSpaceError();
      },
      writev: throwNoSpaceError,
    });
  }
}

/** Replaces functions of `node:fs/promises`, including its named imports. */
function replace(functions: Partial<typeof fs>): void {
  Object.assign(fs, functions);
  syncBuiltinESMExports();
}
