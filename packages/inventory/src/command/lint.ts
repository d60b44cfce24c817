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
  numberOption,
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

Exit status: 0 no errors, 1 errors or too many warnings, 2 unreadable or wrong use.
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
      'max-warnings': numberOption(),
      fix: flagOption,
    });
    const { baseline: file, 'update-baseline': isUpdate = false, today } = values;
    const { config = existsSync(CONFIG_FILE) ? CONFIG_FILE : undefined } = values;
    const files = await resolveInputFiles(positionals);
    const options: LintOptions = {
      ...(config !== undefined && { config: await readParsed(config, parseConfig) }),
      ...(today !== undefined && { today }),
    };
    const baseline = await openBaseline(file, isUpdate);
    const currentFindings = new Baseline(dirname(file ?? ''));
    if (values.fix) {
      const format = values['input-format'] && { format: values['input-format'] };
      await fixFiles(files, { ...options, ...format }, context.log);
    }
    const ids = new Map();
    const ignores = (finding: Finding) =>
      isUpdate ? currentFindings.add(finding) : (baseline?.has(finding) ?? false);
    const { exitStatus, results } = await checkFiles(files, values, context, (source, more) =>
      lintInventory(source, { ...more, ...options, ids, ignores }),
    );
    if (baseline !== null && file !== undefined) {
      if (isUpdate) context.log(await updateBaseline(file, baseline, currentFindings, results));
      else {
        const stale = baseline.countStale(results.filter(isRead).map((result) => result.file));
        const note = `${formatCount(stale, 'finding')} of ${file} not found any more; remove with --update-baseline`;
        if (stale > 0) context.log(note);
      }
    }
    const warnings = sum(results, (result) => result.warnings);
    const isFailed = warnings > (values['max-warnings'] ?? Infinity);
    return isFailed ? Math.max(1, exitStatus) : exitStatus;
  },
};

function sum(results: readonly FileResult[], count: (result: FileResult) => number): number {
  return results.reduce((all, result) => all + count(result), 0);
}

async function readParsed<T>(
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

/** @throws UsageError if the baseline cannot be read or is invalid, or if an update lacks `--baseline`. */
async function openBaseline(file: string | undefined, isUpdate: boolean): Promise<Baseline | null> {
  if (file === undefined) {
    if (isUpdate) throw new UsageError('--update-baseline needs --baseline FILE');
    return null;
  }
  if (isUpdate && !existsSync(file)) return new Baseline(dirname(file));
  return readParsed(file, parseBaseline, {
    maxBytes: MAX_BASELINE_BYTES,
    advice: 'use it for fewer files, or fix the most frequent findings',
  });
}

/** Writes the findings to the baseline. Returns a note for the log. */
async function updateBaseline(
  file: string,
  baseline: Baseline,
  currentFindings: Baseline,
  results: readonly FileResult[],
): Promise<string> {
  // An incomplete baseline would report old findings as new in the next run.
  const unread = results.find((result) => !isRead(result));
  if (unread !== undefined) {
    return `${file} was not changed, as ${unread.file} was not read to its end`;
  }
  baseline.replace(
    results.map((result) => result.file),
    currentFindings,
  );
  await replaceFile(file, baseline.toString());
  const errors = sum(results, (result) => result.errors);
  const rest = `; ${formatCount(errors, 'error')} cannot be hidden: correct what is reported`;
  return `${formatCount(currentFindings.size, 'finding')} written to ${file}${errors === 0 ? '' : rest}`;
}

function isRead({ isComplete, status }: FileResult): boolean {
  return isComplete && status !== 'unreadable';
}

/**
 * Applies all fixes to files, one file at a time in memory. Skips unreadable files, which the check reports.
 * @throws UsageError for standard input, special and compressed files, and for write failures.
 */
async function fixFiles(
  files: readonly string[],
  options: LintOptions,
  log: (message: string) => void,
): Promise<void> {
  for (const file of files) {
    if (file === '-' || (await tryRead(file, isSpecial))) {
      const kind = file === '-' ? 'standard input' : `${file}, which is a pipe or a device`;
      throw new UsageError(`--fix writes files and not ${kind}; save it as a file, and name that`);
    }
  }
  for (const file of files) {
    const read = await tryRead(file, async (path) => {
      const bytes = await readFile(path);
      return { bytes, written: isGzip(bytes) ? null : bytes.toString() };
    });
    if (read === undefined) continue;
    const { bytes, written } = read;
    if (written === null) {
      throw new UsageError(`--fix writes text, and ${file} is compressed; decompress it first`);
    }
    const findings = await Array.fromAsync(lintInventory(bytes, { ...options, file }));
    // A rewrite would lose invalid UTF-8.
    if (findings.some(({ code }) => code.startsWith('encoding/utf'))) continue;
    const { text, applied } = applyFixes(written, findings);
    if (applied === 0) continue;
    await replaceFile(file, text);
    log(`${formatCount(applied, 'finding')} fixed in ${file}`);
  }
}

/** Returns the result of a read. Undefined if the file cannot be read. */
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

/** Tells whether a file is a pipe or device. Reading a pipe may block forever and consumes its contents. */
async function isSpecial(file: string): Promise<boolean> {
  const found = await stat(file);
  return !found.isFile() && !found.isDirectory();
}

/**
 * Applies the fixes of findings to their text. Skips positions at which the text has changed.
 * @returns The text, and the number of fixes applied.
 */
export function applyFixes(
  text: string,
  findings: readonly Finding[],
): { text: string; applied: number } {
  const parts: string[] = [];
  let from = 0;
  let line = 1;
  let lineStart = text.startsWith('\uFEFF') ? 1 : 0;
  for (const finding of findings.toSorted((a, b) => a.line - b.line || a.column - b.column)) {
    const { fix, column } = finding;
    for (; line < finding.line; line += 1) lineStart = text.indexOf('\n', lineStart) + 1;
    let at = lineStart;
    // Columns count code points, offsets UTF-16 code units.
    for (let nth = 1; nth < column; nth += 1) at += (text.codePointAt(at) ?? 0) > 0xffff ? 2 : 1;
    // Two findings may fix the same position. The first fix wins.
    if (fix === undefined || at < from || !text.startsWith(fix.written, at)) continue;
    parts.push(text.slice(from, at), fix.replacement);
    from = at + fix.written.length;
  }
  return { text: parts.join('') + text.slice(from), applied: parts.length / 2 };
}

/**
 * Replaces a file atomically, also in case of a power failure. Keeps symbolic links and permissions.
 * @throws UsageError for errors of the file system.
 */
export async function replaceFile(file: string, text: string): Promise<void> {
  let next: string | undefined;
  try {
    const path = await realpath(file).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'ENOENT') throw error;
      return file;
    });
    const old = existsSync(path) ? await stat(path) : undefined;
    if (old !== undefined) await access(path, constants.W_OK);
    next = `${path}.${randomUUID()}.tmp`;
    await using opened = await open(next, 'wx', old?.mode);
    // The umask applies to new files only. Some file systems have no permissions.
    if (old !== undefined) await opened.chmod(old.mode).catch(() => undefined);
    await opened.writeFile(text);
    await opened.sync();
    await rename(next, path);
  } catch (error) {
    throw toWriteError(error, file);
  } finally {
    if (next !== undefined) await rm(next, { force: true });
  }
}
