import { randomUUID } from 'node:crypto';
import { constants, existsSync } from 'node:fs';
import { access, open, readFile, realpath, rename, rm, stat } from 'node:fs/promises';
import { dirname } from 'node:path';
import type { Finding } from '../finding.ts';
import { MAX_BASELINE_BYTES } from '../limits.ts';
import { Baseline, parseBaseline } from '../lint/baseline.ts';
import {
  ConfigError,
  type LintConfig,
  lintInventory,
  type LintOptions,
  parseConfig,
} from '../lint/lint.ts';
import { isGzip } from '../read/input.ts';
import type { FileResult } from '../reporters.ts';
import { formatCount } from '../text.ts';
import {
  type Command,
  type Context,
  parseToday,
  parseArguments,
  UsageError,
  parseWholeNumber,
} from './command.ts';
import { toReadError, readText, toWriteError } from './files.ts';
import {
  CHECK_OPTIONS,
  CHECK_OPTIONS_HELP,
  type FileCheck,
  parseCheckArguments,
  checkFiles,
} from './validate.ts';

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
      config: { type: 'string' },
      baseline: { type: 'string' },
      'update-baseline': { type: 'boolean' },
      today: { type: 'string' },
      'max-warnings': { type: 'string' },
      fix: { type: 'boolean' },
    });
    const files = await parseCheckArguments(positionals, values);
    const maxWarnings = parseWholeNumber('--max-warnings', values['max-warnings']) ?? Infinity;
    const options = { config: await readConfig(values.config), today: parseToday(values.today) };
    const baseline = await openBaseline(values.baseline, values['update-baseline'] ?? false);
    if (values.fix) await fixFiles(files, context, options);
    const ids = new Map();
    const { exitStatus, results } = await checkFiles(files, context, (source, more) =>
      lintInventory(source, { ...more, ...options, ids, ignores: baseline.ignores }),
    );
    const note = await baseline.end(results);
    if (note !== null) context.log(note);
    const warnings = results.reduce((sum, result) => sum + result.warnings, 0);
    return warnings > maxWarnings ? Math.max(1, exitStatus) : exitStatus;
  },
};

async function readConfig(given: string | undefined): Promise<LintConfig> {
  if (given === undefined && !existsSync(CONFIG_FILE)) return {};
  const file = given ?? CONFIG_FILE;
  const text = await readText(file);
  try {
    return parseConfig(text, file);
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    throw new UsageError(error.message, { cause: error });
  }
}

/** Known findings to hide, and the note printed after the last file. */
type KnownFindings = {
  ignores: (finding: Finding) => boolean;
  end(results: readonly FileResult[]): Promise<string | null>;
};

/** @throws UsageError if the baseline cannot be read or is invalid, or if an update lacks `--baseline`. */
async function openBaseline(file: string | undefined, isUpdate: boolean): Promise<KnownFindings> {
  if (file === undefined) {
    if (!isUpdate) return { ignores: () => false, end: () => Promise.resolve(null) };
    throw new UsageError('--update-baseline needs --baseline FILE');
  }
  const folder = dirname(file);
  const known = isUpdate && !existsSync(file) ? new Baseline(folder) : await readBaseline(file);
  if (!isUpdate) {
    return {
      ignores: (finding) => known.has(finding),
      end(results) {
        const gone = known.countStale(results.filter(isRead).map((result) => result.file));
        const note = `${formatCount(gone, 'finding')} of ${file} not found any more; remove with --update-baseline`;
        return Promise.resolve(gone === 0 ? null : note);
      },
    };
  }
  const found = new Baseline(folder);
  return {
    ignores: (finding) => found.add(finding),
    async end(results) {
      // An incomplete baseline would report old findings as new in the next run.
      const unread = results.find((result) => !isRead(result));
      if (unread !== undefined) {
        return `${file} was not changed, as ${unread.file} was not read to its end`;
      }
      const names = results.map((result) => result.file);
      known.replace(names, found);
      await replaceFile(file, known.toString()).catch((error: unknown) => {
        throw toWriteError(error, file);
      });
      const errors = results.reduce((sum, result) => sum + result.errors, 0);
      const rest =
        errors === 0
          ? ''
          : `; ${formatCount(errors, 'error')} cannot be hidden: correct what is reported`;
      return `${formatCount(found.size, 'finding')} written to ${file}${rest}`;
    },
  };
}

async function readBaseline(file: string): Promise<Baseline> {
  const text = await readText(file, {
    maxBytes: MAX_BASELINE_BYTES,
    advice: 'use it for fewer files, or fix the most frequent findings',
  });
  return parseBaseline(text, file);
}

function isRead({ isComplete, status }: FileResult): boolean {
  return isComplete && status !== 'unreadable';
}

/**
 * Applies all fixes to files, one file at a time in memory. Skips unreadable files, which the check reports.
 * @throws UsageError for standard input, special and compressed files, and for failures to write.
 */
async function fixFiles(
  { files, inputFormat }: FileCheck,
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
      throw toWriteError(error, file);
    });
    log(`${formatCount(applied, 'finding')} fixed in ${file}`);
  }
}

/** Returns the result of a read. Undefined if the file cannot be read. */
async function readable<T>(
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

/** Reading a pipe may block forever and consumes its contents. */
async function isSpecial(file: string): Promise<boolean> {
  const found = await stat(file);
  return !found.isFile() && !found.isDirectory();
}

async function fix(file: string, bytes: Buffer, options: LintOptions) {
  const findings: Finding[] = [];
  for await (const finding of lintInventory(bytes, { ...options, file })) {
    if (finding.fix !== undefined) findings.push(finding);
    // A rewrite would lose invalid UTF-8.
    if (finding.code.startsWith('encoding/utf')) return { text: '', applied: 0 };
  }
  try {
    return applyFixes(bytes.toString(), findings);
  } catch (error) {
    throw toReadError(error, file);
  }
}

/**
 * Applies the fixes of findings to their text. Skips places at which the text has changed.
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
    // Two findings may fix the same place. The first fix wins.
    if (found === undefined || at < from || !text.startsWith(found.written, at)) continue;
    parts.push(text.slice(from, at), found.replacement);
    from = at + found.written.length;
    applied += 1;
  }
  return { text: parts.join('') + text.slice(from), applied };
}

/**
 * Replaces a file atomically, also in case of a power failure. Keeps symbolic links and
 * permissions.
 * @throws Errors of the file system.
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
