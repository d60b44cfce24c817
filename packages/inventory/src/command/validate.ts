import { once } from 'node:events';
import type { Finding } from '../finding.ts';
import {
  type FileResult,
  githubReporter,
  jsonReporter,
  type Reporter,
  sarifReporter,
  textReporter,
} from '../reporters.ts';
import type { InventoryFormat, InventorySource } from '../read/input.ts';
import {
  validateInventory,
  type ValidateOptions,
  type ValidationSummary,
} from '../read/inventory-reader.ts';
import {
  choice,
  type Command,
  type Context,
  INPUT_FORMAT_OPTION,
  inputFormatOf,
  type InventoryIo,
  parseArguments,
  UsageError,
  wholeNumber,
} from './command.ts';
import { inputFiles, labelOf, readFailure } from './files.ts';

/** The options of commands that check files. */
export const CHECK_OPTIONS = {
  format: { type: 'string' },
  ...INPUT_FORMAT_OPTION,
  'max-errors': { type: 'string' },
} as const;

export const CHECK_OPTIONS_HELP = `  --format text|json|sarif|github   the output format (default: text)
  --input-format json|jsonl|yaml    the format of every FILE, whatever its name
  --max-errors N                    stop reading a FILE after N errors`;

const HELP = `Checks endpoint inventories against endpoint.schema.json and reports every error with its line,
column, JSON pointer and record id. A FILE is one JSON array, one record per line if its name ends in
.jsonl, or one YAML list if it ends in .yaml or .yml; it may be compressed with gzip, be a pattern such
as hosts/*.json, or - for standard input.

Options:
${CHECK_OPTIONS_HELP}
  --watch                           check again whenever a FILE changes; patterns are expanded once
  --help                            print this text

Exit status: 0 valid, 1 invalid, 2 unreadable or wrong use.
`;

/** `oselya inventory validate` (Contract 5). */
export const validate: Command = {
  help: HELP,
  async run(argv, context) {
    const { values, positionals } = parseArguments('validate', argv, {
      ...CHECK_OPTIONS,
      watch: { type: 'boolean' },
    });
    const files = await checkedFiles(positionals, values);
    const check = async () => (await checkFiles(files, context, validateInventory)).exitStatus;
    if (!values.watch) return check();
    if (files.format === 'json' || files.format === 'sarif') {
      throw new UsageError(
        `--watch prints findings repeatedly, and ${files.format} is one document; choose text or github`,
      );
    }
    return watchFiles(files.files, context.io, check);
  },
};

const OUTPUT_FORMATS = ['text', 'json', 'sarif', 'github'] as const;

/** The files of a check, and how they are read and printed. */
export type CheckedFiles = {
  files: readonly string[];
  format: (typeof OUTPUT_FORMATS)[number];
  inputFormat: InventoryFormat | undefined;
  maxErrors: number | undefined;
};

type CheckValues = { format?: string; 'input-format'?: string; 'max-errors'?: string };

/**
 * Returns the files and options of a check.
 * @throws UsageError
 */
export async function checkedFiles(
  positionals: string[],
  values: CheckValues,
): Promise<CheckedFiles> {
  return {
    files: await inputFiles(positionals),
    format: choice('--format', OUTPUT_FORMATS, values.format) ?? 'text',
    inputFormat: inputFormatOf(values),
    maxErrors: wholeNumber('--max-errors', values['max-errors'], { min: 1 }),
  };
}

/** Finds the problems of one file; `validateInventory` has this shape. */
export type Check = (
  source: InventorySource,
  options: ValidateOptions & { file: string },
) => AsyncGenerator<Finding, ValidationSummary, undefined>;

const EXIT_STATUS = { valid: 0, invalid: 1, unreadable: 2 } as const;

/** Checks files one after another and prints the findings; returns the exit status of the worst. */
export async function checkFiles(
  checked: CheckedFiles,
  context: Context,
  check: Check,
): Promise<{ exitStatus: number; results: FileResult[] }> {
  const { out, log, io } = context;
  const reporter = reporterFor(checked.format, io);
  const results: FileResult[] = [];
  await out.write(reporter.begin());
  for (const file of checked.files) {
    const result = await checkFile(file, checked, { context, reporter, check });
    if (result.reason !== undefined) log(result.reason);
    await out.write(reporter.fileEnd(result));
    results.push(result);
  }
  const exitStatus = Math.max(...results.map(({ status }) => EXIT_STATUS[status]));
  await out.write(reporter.end(exitStatus));
  return { exitStatus, results };
}

async function checkFile(
  file: string,
  { inputFormat, maxErrors }: CheckedFiles,
  { context: { io, out }, reporter, check }: { context: Context; reporter: Reporter; check: Check },
): Promise<FileResult> {
  const label = labelOf(file);
  const result: FileResult = {
    file: label,
    status: 'valid',
    records: 0,
    errors: 0,
    warnings: 0,
    isComplete: false,
  };
  await using findings = check(file === '-' ? io.stdin : { path: file }, {
    file: label,
    ...(inputFormat && { format: inputFormat }),
    ...(maxErrors && { maxErrors }),
  });
  try {
    let step = await findings.next();
    while (!step.done) {
      const { severity, code } = step.value;
      result[severity === 'error' ? 'errors' : 'warnings'] += 1;
      if (severity === 'error') result.status = 'invalid';
      if (code === 'encoding/utf-16') result.status = 'unreadable';
      await out.write(reporter.finding(step.value));
      // Without a reader, the rest of an invalid file cannot change the exit status.
      if (out.isClosed && result.status !== 'valid') return result;
      step = await findings.next();
    }
    return { ...result, ...step.value };
  } catch (error) {
    const failure = readFailure(error, label);
    if (!(failure instanceof UsageError)) throw error;
    const { records: _unknown, ...known } = result;
    return { ...known, status: 'unreadable', reason: failure.message };
  }
}

/** Colors and excerpts are for terminals only. */
function reporterFor(format: CheckedFiles['format'], io: InventoryIo): Reporter {
  if (format === 'json') return jsonReporter();
  if (format === 'sarif') return sarifReporter();
  if (format === 'github') return githubReporter();
  const isTerminal = io.isTTY ?? ('isTTY' in io.stdout && io.stdout.isTTY === true);
  // Any value that is not empty disables colors: https://no-color.org
  return textReporter({ showsExcerpts: isTerminal, isColored: isTerminal && !io.env['NO_COLOR'] });
}

/**
 * Calls `check` now and after each change of the files, until the signal aborts or the process ends.
 * @returns The result of the last call.
 * @throws UsageError when standard input is among the files, or they cannot be watched.
 */
async function watchFiles(
  files: readonly string[],
  { signal }: Pick<InventoryIo, 'signal'>,
  check: () => Promise<number>,
): Promise<number> {
  if (files.includes('-')) throw new UsageError('standard input cannot be watched; name files');
  const { watch } = await import('chokidar');
  const watcher = watch([...files], { ignoreInitial: true, atomic: true });
  let changed = Promise.withResolvers<void>();
  const wake = () => changed.resolve();
  watcher.on('all', wake);
  signal?.addEventListener('abort', wake);
  const failed = new Promise<never>((_, reject) => {
    watcher.on('error', (error) => {
      const reason = error instanceof Error ? error.message : String(error);
      reject(
        new UsageError(`cannot watch the files: ${reason}; check again by hand`, { cause: error }),
      );
    });
  });
  try {
    // Changes before the watcher is ready would be missed, so the first check comes after.
    if (!signal?.aborted) await Promise.race([once(watcher, 'ready'), changed.promise, failed]);
    for (;;) {
      changed = Promise.withResolvers();
      const status = await check();
      if (!signal?.aborted) await Promise.race([changed.promise, failed]);
      if (signal?.aborted) return status;
    }
  } finally {
    signal?.removeEventListener('abort', wake);
    await watcher.close();
  }
}
