import { open, readFile, stat } from 'node:fs/promises';
import type { Finding } from '../finding.ts';
import { applyFixes } from '../fix/apply-fixes.ts';
import { isGzip } from '../input/gunzip.ts';
import { lintInventory, type LintOptions } from '../lint/lint.ts';
import { count } from '../output/wording.ts';
import type { CheckedFiles } from './check-files.ts';
import type { Context } from './command.ts';
import { readFailureAsUsage, writeFailureAsUsage } from './file-failure.ts';
import { replaceFile } from './replace-file.ts';
import { UsageError } from './usage-error.ts';

const SAVE = 'save it as a file, and name that';

type Options = Pick<LintOptions, 'config' | 'today' | 'format'>;

/**
 * Mends what is certain in files, each in memory as a whole. What cannot be read is left to the check.
 * @throws UsageError for standard input and packed files, and for what cannot be written.
 */
export async function fixFiles(
  { files, inputFormat }: CheckedFiles,
  { tell }: Context,
  options: Pick<LintOptions, 'config' | 'today'>,
): Promise<void> {
  const format = inputFormat && { format: inputFormat };
  for (const file of files) {
    if (file === '-') throw new UsageError(`--fix writes files; standard input is none: ${SAVE}`);
    if (await readable(file, isSpecial)) {
      throw new UsageError(`--fix writes files; ${file} is a pipe or a device: ${SAVE}`);
    }
    if (await readable(file, isPacked)) {
      throw new UsageError(`--fix writes text; ${file} is packed: unpack it first`);
    }
  }
  for (const file of files) {
    const bytes = await readable(file, (path) => readFile(path));
    if (bytes === undefined) continue;
    const { text, applied } = await mend(file, bytes, { ...options, ...format });
    if (applied === 0) continue;
    const isDone = await replaceFile(file, bytes, text).catch((error: unknown) => {
      throw writeFailureAsUsage(error, file);
    });
    tell(
      isDone
        ? `${count(applied, 'finding')} mended in ${file}`
        : `${file} has changed meanwhile, and is left as it is; try again`,
    );
  }
}

/**
 * What is read of a file; undefined when it cannot be read at all.
 * @throws UsageError for a file that can be read, but not as a whole.
 */
async function readable<T>(
  file: string,
  read: (file: string) => Promise<T>,
): Promise<T | undefined> {
  try {
    return await read(file);
  } catch (error) {
    if (error instanceof Error && 'syscall' in error) return undefined;
    throw readFailureAsUsage(error, file);
  }
}

/** Whether it is neither a file nor a folder: reading a pipe may wait for ever, and takes what it holds. */
async function isSpecial(file: string): Promise<boolean> {
  const found = await stat(file);
  return !found.isFile() && !found.isDirectory();
}

async function isPacked(file: string): Promise<boolean> {
  await using opened = await open(file);
  const { buffer } = await opened.read(Buffer.alloc(2), 0, 2, 0);
  return isGzip(buffer);
}

async function mend(file: string, bytes: Buffer, options: Options) {
  const findings: Finding[] = [];
  for await (const finding of lintInventory(bytes, { ...options, file })) {
    if (finding.fix !== undefined) findings.push(finding);
    // What is not UTF-8 would be lost in writing.
    if (finding.code.startsWith('encoding/utf')) return { text: '', applied: 0 };
  }
  return applyFixes(textOf(bytes, file), findings);
}

/** Throws UsageError for what fits into no string. */
function textOf(bytes: Buffer, file: string): string {
  try {
    return bytes.toString();
  } catch (error) {
    throw readFailureAsUsage(error, file);
  }
}
