import { existsSync, globSync, readFileSync, realpathSync, statSync } from 'node:fs';
import { join, relative, resolve, sep } from 'node:path';
import { isMap, isScalar, isSeq } from 'yaml';
import { JsonTextError, parseJsonText } from '../json/parser.ts';
import { MAX_INCLUDED_FILES, MAX_TEXT_BYTES } from '../limits.ts';
import {
  parseYaml,
  findRepeatedKeys,
  TOO_DEEP_MESSAGE,
  getDocumentValue,
  YamlError,
} from '../read/yaml.ts';
import { quoteText, shorten } from '../text.ts';
import { type ImportResult, ImportError } from './draft.ts';

export const UNCLOSED_BLOCK_MESSAGE =
  'the block that begins here is not closed; add the } that ends it';
export const UNMATCHED_BRACE_MESSAGE =
  'this } closes nothing; remove it, or add the { that it ends';
export { TOO_DEEP_MESSAGE };

/** Yields the lines or directives of a block, up to null or the end of the file. */
export function* readBlock<T>(items: Iterator<T | null>): Generator<T> {
  for (
    let iteration = items.next();
    !iteration.done && iteration.value !== null;
    iteration = items.next()
  ) {
    yield iteration.value;
  }
}

/** Base folder of relative paths, and the imported file. The file is undefined for standard input. */
export type ImportFolder = { path: string; file: string | undefined };

/** Reads the included files of a configuration. All files must be in one folder or its subfolders. */
export class IncludedFiles {
  readonly #folder: string;
  readonly #result: ImportResult;
  // Stack of files being read. Each file includes the next one.
  readonly #openFiles: string[] = [];
  #fileCount = 0;
  #byteCount = 0;

  /** @throws File system errors, if the folder or the file does not exist. */
  constructor({ path, file }: ImportFolder, result: ImportResult) {
    this.#folder = realpathSync(path);
    this.#result = result;
    if (file !== undefined) this.#openFiles.push(realpathSync(file));
  }

  /**
   * Calls `parse` with the text of each file that matches a path or pattern. Skips files outside the folder and
   * circular includes.
   * @throws ImportError if the limit on files or bytes is exceeded, and for errors in a file; file system errors.
   */
  *read<T>(pattern: string, parse: (text: string) => Iterable<T>): Generator<T> {
    const skip = (reason: string) =>
      this.#result.skip(() => `include ${shorten(pattern)}: ${reason}`);
    const paths = this.#findPaths(pattern);
    if (paths.length === 0 && !/[*?[]/.test(pattern)) skip('there is no such file in the folder');
    for (const path of paths) {
      const name = relative(this.#folder, path).split(sep).join('/');
      if (!isInFolder(this.#folder, path)) skip('it is outside the folder');
      else if (this.#openFiles.includes(path)) skip(`${shorten(name)} includes itself`);
      else {
        this.#openFiles.push(path);
        try {
          yield* parse(this.#readText(path));
        } catch (error) {
          if (!(error instanceof ImportError)) throw error;
          throw new ImportError(`${name}: ${error.message}`, { cause: error });
        } finally {
          this.#openFiles.pop();
        }
      }
    }
  }

  /** Returns matching paths with symbolic links resolved, in order, or the path itself if it is outside the folder. */
  #findPaths(pattern: string): string[] {
    const fullPath = resolve(this.#folder, pattern);
    if (!isInFolder(this.#folder, fullPath)) return [fullPath];
    return globSync(relative(this.#folder, fullPath), { cwd: this.#folder })
      .filter((name) => existsSync(join(this.#folder, name)))
      .toSorted()
      .map((name) => realpathSync(join(this.#folder, name)))
      .filter((path) => !isInFolder(this.#folder, path) || statSync(path).isFile());
  }

  #readText(path: string): string {
    this.#fileCount += 1;
    this.#byteCount += statSync(path).size;
    if (this.#fileCount > MAX_INCLUDED_FILES || this.#byteCount > MAX_TEXT_BYTES) {
      const limit = MAX_TEXT_BYTES / 1024 / 1024;
      throw new ImportError(
        `more than ${MAX_INCLUDED_FILES} files or ${limit} MiB are included; import it in parts`,
      );
    }
    return readFileSync(path, 'utf8').replace(/^\uFEFF/, '');
  }
}

function isInFolder(folder: string, path: string): boolean {
  return path.startsWith(folder.endsWith(sep) ? folder : folder + sep);
}

/**
 * Returns the index of the closing quote at or after `from`, or -1. A regular expression would backtrack at each
 * character.
 */
export function findQuoteEnd(source: string, from: number, quote: string): number {
  for (let index = from; index < source.length; index += 1) {
    if (source[index] === '\\') index += 1;
    else if (source[index] === quote) return index;
  }
  return -1;
}

/** Counts the newlines between the offsets `from` (inclusive) and `to` (exclusive). */
export function countNewlines(source: string, from: number, to: number): number {
  let count = 0;
  for (let index = from; index < to; index += 1) if (source[index] === '\n') count += 1;
  return count;
}

/**
 * Parses YAML or JSON whose root is a mapping.
 * @param maxBytes Maximum size of YAML. JSON is limited only by the maximum file size.
 * @throws ImportError
 */
export function parseMapping(source: string, maxBytes: number): Record<string, unknown> {
  if (/^\s*\{/.test(source)) {
    // JSON is valid YAML, but the JSON parser is much faster.
    try {
      return toMapping(parseJsonText(source));
    } catch (error) {
      if (!(error instanceof JsonTextError)) throw error;
      const isTooLarge = Buffer.byteLength(source) > maxBytes;
      const message = error.isTooDeep ? TOO_DEEP_MESSAGE : error.message;
      if (error.isTooDeep || isTooLarge) throw new ImportError(message, { cause: error });
    }
  }
  try {
    const document = parseYaml(source, maxBytes);
    for (const { key } of findRepeatedKeys(document.contents)) {
      const message = `the key ${quoteText(String(key.value))} is already in this mapping; remove one`;
      throw new YamlError(message, { offset: key.range?.[0] ?? 0 });
    }
    const { contents } = document;
    if (isMap(contents)) return toMapping(getDocumentValue(document));
    const kind = isSeq(contents) ? 'a list' : isScalar(contents) ? 'a single value' : 'nothing';
    const message = `a mapping is expected at the top, and there is ${kind}; name a file of the kind that --from says`;
    throw new ImportError(message);
  } catch (error) {
    if (!(error instanceof YamlError)) throw error;
    const { offset, message } = error;
    const location = offset === undefined ? '' : `line ${1 + countNewlines(source, 0, offset)}: `;
    throw new ImportError(location + message, { cause: error });
  }
}

/** Copies a mapping to an object without a prototype. Returns an empty object for other values. */
export function toMapping(value: unknown): Record<string, unknown> {
  const isMapping = typeof value === 'object' && value !== null && !Array.isArray(value);
  return isMapping ? Object.assign(Object.create(null), value) : {};
}

/** Returns a list unchanged, or an empty list for other values. */
export function toList(value: unknown): unknown[] {
  return Array.isArray(value) ? value : [];
}

/** Returns a trimmed string, a number as a string, or undefined for other values and blank strings. */
export function toText(value: unknown): string | undefined {
  if (typeof value === 'number') return String(value);
  return typeof value === 'string' && value.trim() !== '' ? value.trim() : undefined;
}
