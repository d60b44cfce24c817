import { randomUUID } from 'node:crypto';
import { constants } from 'node:fs';
import { access, open, readFile, realpath, rename, rm, stat } from 'node:fs/promises';
import type { Finding } from '../finding.ts';
import { lintInventory, type LintOptions } from '../lint/lint.ts';
import { isGzip } from '../read/input.ts';
import { count } from '../text.ts';
import { type Context, UsageError } from './command.ts';
import { readFailure, writeFailure } from './files.ts';
import type { CheckedFiles } from './validate.ts';

/**
 * Applies the fixes of all findings to files, each in memory. Unreadable files are left to the check.
 * @throws UsageError for standard input, special and compressed files, and for failures to write.
 */
export async function fixFiles(
  { files, inputFormat }: CheckedFiles,
  { log }: Context,
  options: Pick<LintOptions, 'config' | 'today'>,
): Promise<void> {
  for (const file of files) {
    if (file === '-' || (await readable(file, isSpecial))) {
      const kind = file === '-' ? 'standard input' : `${file}, which is a pipe or a device`;
      throw new UsageError(`--fix writes files and not ${kind}; save it as a file, and name that`);
    }
  }
  for (const file of files) {
    const bytes = await readable(file, (path) => readFile(path));
    if (bytes === undefined) continue;
    if (isGzip(bytes)) {
      throw new UsageError(`--fix writes text, and ${file} is compressed; decompress it first`);
    }
    const format = inputFormat && { format: inputFormat };
    const { text, applied } = await fix(file, bytes, { ...options, ...format });
    if (applied === 0) continue;
    await replaceFile(file, text).catch((error: unknown) => {
      throw writeFailure(error, file);
    });
    log(`${count(applied, 'finding')} fixed in ${file}`);
  }
}

/** Returns what is read of a file; undefined when it cannot be read at all. */
async function readable<T>(
  file: string,
  read: (file: string) => Promise<T>,
): Promise<T | undefined> {
  try {
    return await read(file);
  } catch (error) {
    if (error instanceof Error && 'syscall' in error) return undefined;
    throw readFailure(error, file);
  }
}

/** Reading a pipe may block forever and consumes its contents. */
async function isSpecial(file: string): Promise<boolean> {
  const found = await stat(file);
  return !found.isFile() && !found.isDirectory();
}

async function fix(file: string, bytes: Buffer, options: LintOptions) {
  const findings: Finding[] = [];
  for await (const finding of lintInventory(bytes, { ...options, file })) {
    if (finding.fix !== undefined) findings.push(finding);
    // Bytes that are not UTF-8 would be lost.
    if (finding.code.startsWith('encoding/utf')) return { text: '', applied: 0 };
  }
  try {
    return applyFixes(bytes.toString(), findings);
  } catch (error) {
    throw readFailure(error, file);
  }
}

/**
 * Applies the fixes of findings to their text; it skips places at which the text has changed.
 * @returns The text, and the number of fixes applied.
 */
export function applyFixes(
  text: string,
  findings: readonly Finding[],
): { text: string; applied: number } {
  const parts: string[] = [];
  let from = 0;
  let applied = 0;
  let line = 1;
  let lineStart = text.startsWith('\uFEFF') ? 1 : 0;
  for (const finding of findings.toSorted((a, b) => a.line - b.line || a.column - b.column)) {
    const { fix: found, column } = finding;
    for (; line < finding.line; line += 1) lineStart = text.indexOf('\n', lineStart) + 1;
    let at = lineStart;
    // Columns count code points, offsets UTF-16 code units.
    for (let nth = 1; nth < column; nth += 1) at += (text.codePointAt(at) ?? 0) > 0xffff ? 2 : 1;
    // Two findings may fix one place; the first one has.
    if (found === undefined || at < from || !text.startsWith(found.written, at)) continue;
    parts.push(text.slice(from, at), found.replacement);
    from = at + found.written.length;
    applied += 1;
  }
  return { text: parts.join('') + text.slice(from), applied };
}

/**
 * Replaces a file atomically: it has the old or the new text, even after a power cut. A symbolic link still leads to
 * it, and its permissions stay.
 * @throws What the file system throws.
 */
export async function replaceFile(file: string, text: string): Promise<void> {
  const old = await realpath(file).then(
    async (path) => {
      await access(path, constants.W_OK);
      return { path, mode: (await stat(path)).mode };
    },
    (error: NodeJS.ErrnoException) => {
      if (error.code !== 'ENOENT') throw error;
      return { path: file, mode: undefined };
    },
  );
  const next = `${old.path}.${randomUUID()}.tmp`;
  try {
    await using opened = await open(next, 'wx', old.mode);
    // The umask applies to new files only. Some file systems have no permissions.
    if (old.mode !== undefined) await opened.chmod(old.mode).catch(() => undefined);
    await opened.writeFile(text);
    await opened.sync();
    await rename(next, old.path);
  } finally {
    await rm(next, { force: true });
  }
}
