import { existsSync } from 'node:fs';
import { glob, stat } from 'node:fs/promises';
import { UsageError } from './usage-error.ts';

const PATTERN = /[*?[\]{}]/;

/**
 * The files that arguments name: `-` for standard input, paths, and patterns such as `hosts/*.json` for
 * shells that leave them as they are. A file that is there is meant by its name, whatever stands in it.
 * @throws UsageError when nothing is named, nothing matches, or standard input is to be read twice.
 */
export async function inputFiles(args: readonly string[]): Promise<string[]> {
  if (args.length === 0) {
    throw new UsageError('no file is given; name a FILE, or - for standard input');
  }
  if (args.filter((file) => file === '-').length > 1) {
    throw new UsageError('standard input can be read once; give - once');
  }
  const files = await Promise.all(
    args.map(async (arg) => {
      return PATTERN.test(arg) && !existsSync(arg) ? await matching(arg) : [arg];
    }),
  );
  return [...new Set(files.flat())];
}

/**
 * The one file that a command works with; a pattern may name it.
 * @param done What is done to it, such as `exported`.
 * @throws UsageError when there is none, or more.
 */
export async function oneFile(args: readonly string[], done: string): Promise<string> {
  const [file, ...more] = args.length === 1 ? await inputFiles(args) : args;
  if (file !== undefined && more.length === 0) return file;
  if (args.length === 1) {
    throw new UsageError(`one file is ${done}, and ${more.length + 1} match ${args[0]}`);
  }
  throw new UsageError(`one file is ${done}: give FILE, or - for standard input`);
}

/** Folders match patterns too, and pipes, from which nothing may ever come; both are no files. */
async function matching(pattern: string): Promise<string[]> {
  const found = await Array.fromAsync(glob(pattern), async (path) => {
    // What cannot be looked at, such as a link to nothing, is told where it is read.
    const entry = await stat(path).catch(() => null);
    return entry === null || entry.isFile() ? [path] : [];
  });
  const files = found.flat();
  if (files.length > 0) return files.toSorted();
  throw new UsageError(`no file matches ${pattern}; check the path`);
}
