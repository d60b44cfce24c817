import { once } from 'node:events';
import type { Finding } from '../finding.ts';
import {
  type FileResult,
  createGithubReporter,
  createJsonReporter,
  type Reporter,
  createSarifReporter,
  createTextReporter,
} from '../reporters.ts';
import type { InventoryFormat, InventorySource } from '../read/input.ts';
import {
  validateInventory,
  type ValidateOptions,
  type ValidationSummary,
} from '../read/inventory-reader.ts';
import {
  parseChoice,
  type Command,
  type Context,
  INPUT_FORMAT_OPTION,
  parseInputFormat,
  type InventoryIo,
  parseArguments,
  UsageError,
  parseWholeNumber,
} from './command.ts';
import { resolveInputFiles, formatFileLabel, toReadError } from './files.ts';

/** Options of commands that check files. */
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
export const validateCommand: Command = {
  help: HELP,
  async run(argv, context) {
    const { values, positionals } = parseArguments('validate', argv, {
      ...CHECK_OPTIONS,
      watch: { type: 'boolean' },
    });
    const files = await parseCheckArguments(positionals, values);
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

/** Files to check, with their input and output options. */
export type FileCheck = {
  files: readonly string[];
  format: (typeof OUTPUT_FORMATS)[number];
  inputFormat: InventoryFormat | undefined;
  maxErrors: number | undefined;
};

type CheckValues = { format?: string; 'input-format'?: string; 'max-errors'?: string };

/**
 * Parses the files and options of a check.
 * @throws UsageError
 */
export async function parseCheckArguments(
  positionals: string[],
  values: CheckValues,
): Promise<FileCheck> {
  return {
    files: await resolveInputFiles(positionals),
    format: parseChoice('--format', OUTPUT_FORMATS, values.format) ?? 'text',
    inputFormat: parseInputFormat(values),
    maxErrors: parseWholeNumber('--max-errors', values['max-errors'], { min: 1 }),
  };
}

/** Finds the problems of one inventory, as `validateInventory` does. */
export type InventoryCheck = (
  source: InventorySource,
  options: ValidateOptions & { file: string },
) => AsyncGenerator<Finding, ValidationSummary, undefined>;

const EXIT_STATUS = { valid: 0, invalid: 1, unreadable: 2 } as const;

/** Checks files in sequence and prints the findings. Returns the highest exit status. */
export async function checkFiles(
  checked: FileCheck,
  context: Context,
  check: InventoryCheck,
): Promise<{ exitStatus: number; results: FileResult[] }> {
  const { out, log, io } = context;
  const reporter = createReporter(checked.format, io);
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
  { inputFormat, maxErrors }: FileCheck,
  {
    context: { io, out },
    reporter,
    check,
  }: { context: Context; reporter: Reporter; check: InventoryCheck },
): Promise<FileResult> {
  const label = formatFileLabel(file);
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
      // Without a reader, further findings of an invalid file have no effect.
      if (out.isClosed && result.status !== 'valid') return result;
      step = await findings.next();
    }
    return { ...result, ...step.value };
  } catch (error) {
    const failure = toReadError(error, label);
    if (!(failure instanceof UsageError)) throw error;
    const { records: _unknown, ...known } = result;
    return { ...known, status: 'unreadable', reason: failure.message };
  }
}

/** Creates the reporter of a format. Colors and excerpts are for terminals only. */
function createReporter(format: FileCheck['format'], io: InventoryIo): Reporter {
  if (format === 'json') return createJsonReporter();
  if (format === 'sarif') return createSarifReporter();
  if (format === 'github') return createGithubReporter();
  const isTerminal = io.isTTY ?? ('isTTY' in io.stdout && io.stdout.isTTY === true);
  // Any non-empty value disables colors: https://no-color.org
  return createTextReporter({
    showsExcerpts: isTerminal,
    isColored: isTerminal && !io.env['NO_COLOR'],
  });
}

/**
 * Calls `check` now and after each change of the files, until the signal aborts or the process ends.
 * @returns The result of the last call.
 * @throws UsageError if the files include standard input or cannot be watched.
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
    // The watcher misses changes before it is ready, so the first check waits for it.
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
