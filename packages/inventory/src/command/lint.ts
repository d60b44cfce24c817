import { randomUUID } from 'node:crypto';
import { constants, existsSync } from 'node:fs';
import { access, open, readFile, realpath, rename, rm, stat } from 'node:fs/promises';
import { dirname } from 'node:path';
import type { Finding } from '../finding.ts';
import { MAX_BASELINE_BYTES } from '../limits.ts';
import { Baseline, parseBaseline } from '../lint/baseline.ts';
import { ConfigError, lintInventory, type LintOptions, parseConfig } from '../lint/lint.ts';
import { isGzip } from '../read/input.ts';
import type { FileResult } from '../reporters.ts';
import { formatCount } from '../text.ts';
import {
  type Command,
  dayOption,
  flagOption,
  createNumberOption,
  parseArguments,
  textOption,
  UsageError,
} from './command.ts';
import { readText, resolveInputFiles, toReadError, toWriteError } from './files.ts';
import { CHECK_OPTIONS, CHECK_OPTIONS_HELP, checkFiles } from './validate.ts';

const CONFIG_FILE = 'inventory.config.json';

const HELP = `Validates inventories as \`validate\` does, and judges their records by rules: repeated ids, old
reviews, public endpoints without authentication, and others. Each rule has a page in
docs/inventory/rules. FILE is as for \`validate\`.

Options:
  --config FILE                     which rules are off, their severities and options
                                    (default: ${CONFIG_FILE}, if it exists)
  --baseline FILE                   hide the findings that are listed in FILE
  --update-baseline                 write the current findings into the FILE of --baseline; its findings
                                    of other files stay
  --today YYYY-MM-DD                judge reviews against this day (default: today in UTC)
  --fix                             fix what is unambiguous in the files, then report the rest
  --max-warnings N                  fail when there are more than N warnings
${CHECK_OPTIONS_HELP}
  --help                            print this text

Exit status: 0 no errors, 1 errors or too many warnings, 2 unreadable file or usage error.
`;

/** `oselya inventory lint` (Contract 5). */
export const lintCommand: Command = {
  help: HELP,
  async run(argv, context) {
    const { values, positionals } = parseArguments('lint', argv, {
      ...CHECK_OPTIONS,
      config: textOption,
      baseline: textOption,
      'update-baseline': flagOption,
      today: dayOption,
      'max-warnings': createNumberOption(),
      fix: flagOption,
    });
    const { baseline: baselineFile, 'update-baseline': isUpdate = false, today } = values;
    const { config = existsSync(CONFIG_FILE) ? CONFIG_FILE : undefined } = values;
    const files = await resolveInputFiles(positionals);
    const options: LintOptions = {
      ...(config !== undefined && { config: await readAndParse(config, parseConfig) }),
      ...(today !== undefined && { today }),
    };
    const baseline = await openBaseline(baselineFile, isUpdate);
    const currentFindings = new Baseline(dirname(baselineFile ?? ''));
    if (values.fix) {
      const formatOption = values['input-format'] && { format: values['input-format'] };
      await fixFiles(files, { ...options, ...formatOption }, context.log);
    }
    const ids = new Map();
    const ignores = (finding: Finding) =>
      isUpdate ? currentFindings.add(finding) : (baseline?.has(finding) ?? false);
    const { exitStatus, results } = await checkFiles(
      files,
      values,
      context,
      (source, checkOptions) =>
        lintInventory(source, { ...checkOptions, ...options, ids, ignores }),
    );
    if (baseline !== null && baselineFile !== undefined) {
      if (isUpdate)
        context.log(await updateBaseline(baselineFile, baseline, currentFindings, results));
      else {
        const staleCount = baseline.countStale(
          results.filter(isFullyRead).map((result) => result.file),
        );
        const note = `${formatCount(staleCount, 'finding')} of ${baselineFile} not found any more; remove with --update-baseline`;
        if (staleCount > 0) context.log(note);
      }
    }
    const warnings = sum(results, (result) => result.warnings);
    const hasTooManyWarnings = warnings > (values['max-warnings'] ?? Infinity);
    return hasTooManyWarnings ? Math.max(1, exitStatus) : exitStatus;
  },
};

function sum(results: readonly FileResult[], getCount: (result: FileResult) => number): number {
  return results.reduce((total, result) => total + getCount(result), 0);
}

async function readAndParse<T>(
  file: string,
  parse: (text: string, file: string) => T,
  limit?: { maxBytes: number; advice: string },
): Promise<T> {
  const text = await readText(file, limit);
  try {
    return parse(text, file);
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    throw new UsageError(error.message, { cause: error });
  }
}

/** Opens the baseline. @throws UsageError if it cannot be read or is invalid, or if an update lacks `--baseline`. */
async function openBaseline(file: string | undefined, isUpdate: boolean): Promise<Baseline | null> {
  if (file === undefined) {
    if (isUpdate) throw new UsageError('--update-baseline needs --baseline FILE');
    return null;
  }
  if (isUpdate && !existsSync(file)) return new Baseline(dirname(file));
  return readAndParse(file, parseBaseline, {
    maxBytes: MAX_BASELINE_BYTES,
    advice: 'use it for fewer files, or fix the most frequent findings',
  });
}

/** Writes the findings to the baseline if all files were read to the end. Returns a note for the log. */
async function updateBaseline(
  file: string,
  baseline: Baseline,
  currentFindings: Baseline,
  results: readonly FileResult[],
): Promise<string> {
  // With an incomplete baseline, the next run would report old findings as new.
  const unreadResult = results.find((result) => !isFullyRead(result));
  if (unreadResult !== undefined) {
    return `${file} was not changed, as ${unreadResult.file} was not read to its end`;
  }
  baseline.replace(
    results.map((result) => result.file),
    currentFindings,
  );
  await replaceFile(file, baseline.toString());
  const errors = sum(results, (result) => result.errors);
  const errorNote = `; ${formatCount(errors, 'error')} cannot be hidden: correct what is reported`;
  return `${formatCount(currentFindings.size, 'finding')} written to ${file}${errors === 0 ? '' : errorNote}`;
}

function isFullyRead({ isComplete, status }: FileResult): boolean {
  return isComplete && status !== 'unreadable';
}

/**
 * Applies all fixes to files, holding one file in memory at a time. Skips files that are unreadable or not UTF-8, which
 * the check reports.
 * @throws UsageError for standard input, special and compressed files, and for write failures.
 */
async function fixFiles(
  files: readonly string[],
  options: LintOptions,
  log: (message: string) => void,
): Promise<void> {
  for (const file of files) {
    if (file === '-' || (await tryRead(file, isSpecialFile))) {
      const kind = file === '-' ? 'standard input' : `${file}, which is a pipe or a device`;
      throw new UsageError(`--fix writes files and not ${kind}; save it as a file, and name that`);
    }
  }
  for (const file of files) {
    const content = await tryRead(file, async (path) => {
      const bytes = await readFile(path);
      return { bytes, text: isGzip(bytes) ? null : bytes.toString() };
    });
    if (content === undefined) continue;
    const { bytes, text } = content;
    if (text === null) {
      throw new UsageError(`--fix writes text, and ${file} is compressed; decompress it first`);
    }
    const fixableFindings: Finding[] = [];
    let isUtf8 = true;
    for await (const finding of lintInventory(bytes, { ...options, file })) {
      if (finding.code.startsWith('encoding/utf')) isUtf8 = false;
      if (finding.fix !== undefined) fixableFindings.push(finding);
    }
    // A rewrite would lose invalid UTF-8.
    if (!isUtf8) continue;
    const { text: fixedText, appliedCount } = applyFixes(text, fixableFindings);
    if (appliedCount === 0) continue;
    await replaceFile(file, fixedText);
    log(`${formatCount(appliedCount, 'finding')} fixed in ${file}`);
  }
}

/** Calls `read` and returns its result. Returns undefined if the file cannot be read. */
async function tryRead<T>(
  file: string,
  read: (file: string) => Promise<T>,
): Promise<T | undefined> {
  try {
    return await read(file);
  } catch (error) {
    if (error instanceof Error && 'syscall' in error) return undefined;
    throw toReadError(error, file);
  }
}

/** Returns whether a file is a pipe or device. Reading a pipe may block forever and consumes its contents. */
async function isSpecialFile(file: string): Promise<boolean> {
  const stats = await stat(file);
  return !stats.isFile() && !stats.isDirectory();
}

/**
 * Applies the fixes of findings to their text. Skips a fix if the text at its position has changed or is fixed already.
 * @returns The fixed text, and the number of applied fixes.
 */
export function applyFixes(
  text: string,
  findings: readonly Finding[],
): { text: string; appliedCount: number } {
  const parts: string[] = [];
  let textStart = 0;
  let line = 1;
  let lineStart = text.startsWith('\uFEFF') ? 1 : 0;
  for (const finding of findings.toSorted((a, b) => a.line - b.line || a.column - b.column)) {
    const { fix, column } = finding;
    if (fix === undefined) continue;
    for (; line < finding.line; line += 1) lineStart = text.indexOf('\n', lineStart) + 1;
    let offset = lineStart;
    // Columns count code points, offsets UTF-16 code units.
    for (let currentColumn = 1; currentColumn < column; currentColumn += 1)
      offset += (text.codePointAt(offset) ?? 0) > 0xffff ? 2 : 1;
    // Two findings may fix the same position. The first fix wins.
    if (offset < textStart || !text.startsWith(fix.written, offset)) continue;
    parts.push(text.slice(textStart, offset), fix.replacement);
    textStart = offset + fix.written.length;
  }
  return { text: parts.join('') + text.slice(textStart), appliedCount: parts.length / 2 };
}

/**
 * Replaces a file atomically, even after a power failure. Keeps symbolic links and permissions.
 * @throws UsageError for file system errors.
 */
export async function replaceFile(file: string, text: string): Promise<void> {
  let temporaryPath: string | undefined;
  try {
    const path = await realpath(file).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'ENOENT') throw error;
      return file;
    });
    const previousStats = existsSync(path) ? await stat(path) : undefined;
    if (previousStats !== undefined) await access(path, constants.W_OK);
    temporaryPath = `${path}.${randomUUID()}.tmp`;
    await using handle = await open(temporaryPath, 'wx', previousStats?.mode);
    // The umask may have restricted the mode. Some file systems have no permissions.
    if (previousStats !== undefined) await handle.chmod(previousStats.mode).catch(() => undefined);
    await handle.writeFile(text);
    await handle.sync();
    await rename(temporaryPath, path);
  } catch (error) {
    throw toWriteError(error, file);
  } finally {
    if (temporaryPath !== undefined) await rm(temporaryPath, { force: true });
  }
}
