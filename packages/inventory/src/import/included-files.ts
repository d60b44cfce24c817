import { existsSync, globSync, readFileSync, realpathSync, statSync } from 'node:fs';
import { join, relative, resolve, sep } from 'node:path';
import { MAX_INCLUDED_FILES, MAX_TEXT_BYTES } from '../limits.ts';
import { shorten } from '../shorten.ts';
import { ImportError, type LeftOut } from './draft.ts';

/** A file that another one includes: its path from the folder on, and its text. */
export type IncludedFile = { name: string; text: string };

/** The folder to which relative paths lead, and the file that is imported, unless that is standard input. */
export type Folder = { path: string; file: string | undefined };

/** Reads the files that a configuration includes, all of them in one folder. */
export class IncludedFiles {
  readonly #folder: string;
  /** The files that are being read, each included by the one before it. */
  readonly #open: string[] = [];
  #files = 0;
  #bytes = 0;

  /** Throws what the file system throws. */
  constructor({ path, file }: Folder) {
    this.#folder = realpathSync(path);
    if (file !== undefined) this.#open.push(realpathSync(file));
  }

  /**
   * Calls back with each file that a path or pattern names, in the order of their names. Files outside of the folder
   * and those that include themselves are left out.
   * @throws ImportError for more files or bytes than the limits, and for what is wrong with a file.
   */
  *read<T>(
    pattern: string,
    leftOut: LeftOut,
    use: (file: IncludedFile) => Iterable<T>,
  ): Generator<T> {
    const leave = (why: string) => {
      leftOut.add(() => `include ${shorten(pattern)}: ${why}`);
    };
    const paths = this.#pathsOf(pattern);
    if (paths.length === 0 && !/[*?[]/.test(pattern)) leave('there is no such file in the folder');
    for (const path of paths) {
      const name = relative(this.#folder, path).split(sep).join('/');
      if (!isWithin(this.#folder, path)) leave('it is outside of the folder');
      else if (this.#open.includes(path)) leave(`${shorten(name)} includes itself`);
      else {
        this.#open.push(path);
        try {
          yield* use({ name, text: this.#textOf(path) });
        } catch (error) {
          throw error instanceof ImportError
            ? new ImportError(`${name}: ${error.message}`, { cause: error })
            : error;
        } finally {
          this.#open.pop();
        }
      }
    }
  }

  /** The files themselves, without the links that lead to them. */
  #pathsOf(pattern: string): string[] {
    const whole = resolve(this.#folder, pattern);
    // Nothing outside is looked for, not even whether it is there.
    if (!isWithin(this.#folder, whole)) return [whole];
    const found = globSync(relative(this.#folder, whole), { cwd: this.#folder });
    return found
      .filter((name) => existsSync(join(this.#folder, name)))
      .toSorted()
      .map((name) => realpathSync(join(this.#folder, name)))
      .filter((path) => !isWithin(this.#folder, path) || statSync(path).isFile());
  }

  #textOf(path: string): string {
    this.#files += 1;
    this.#bytes += statSync(path).size;
    if (this.#files > MAX_INCLUDED_FILES || this.#bytes > MAX_TEXT_BYTES) {
      const limit = MAX_TEXT_BYTES / 1024 / 1024;
      throw new ImportError(
        `more than ${MAX_INCLUDED_FILES} files or ${limit} MiB are included; import it in parts`,
      );
    }
    return readFileSync(path, 'utf8').replace(/^\uFEFF/, '');
  }
}

function isWithin(folder: string, path: string): boolean {
  return path.startsWith(folder.endsWith(sep) ? folder : folder + sep);
}
