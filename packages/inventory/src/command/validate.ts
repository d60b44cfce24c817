import { once } from 'node:events';
import type { Finding } from '../finding.ts';
import type { InventorySource } from '../read/input.ts';
import {
  validateInventory,
  type ValidateOptions,
  type ValidationSummary,
} from '../read/inventory-reader.ts';
import { type FileResult, type Reporter, REPORTERS } from '../reporters.ts';
import {
  createChoiceOption,
  type Command,
  type Context,
  flagOption,
  INPUT_FORMAT_OPTION,
  createNumberOption,
  type OptionValues,
  parseArguments,
  UsageError,
} from './command.ts';
import { formatFileLabel, resolveInputFiles, toReadError } from './files.ts';

export const CHECK_OPTIONS = {
  format: createChoiceOption('text', 'json', 'sarif', 'github'),
  ...INPUT_FORMAT_OPTION,
  'max-errors': createNumberOption({ min: 1 }),
};

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

Exit status: 0 valid, 1 invalid, 2 unreadable file or usage error.
`;

/** `oselya inventory validate` (Contract 5). */
export const validateCommand: Command = {
  help: HELP,
  async run(argv, context) {
    const { values, positionals } = parseArguments('validate', argv, {
      ...CHECK_OPTIONS,
      watch: flagOption,
    });
    const files = await resolveInputFiles(positionals);
    const check = async () =>
      (await checkFiles(files, values, context, validateInventory)).exitStatus;
    if (!values.watch) return check();
    if (values.format === 'json' || values.format === 'sarif') {
      throw new UsageError(
        `--watch prints findings repeatedly, and ${values.format} is one document; choose text or github`,
      );
    }
    return watchFiles(files, context.io.signal, check);
  },
};

/** Function that finds the problems of one inventory, as `validateInventory` does. */
type InventoryCheck = (
  source: InventorySource,
  options: ValidateOptions & { file: string },
) => AsyncGenerator<Finding, ValidationSummary, undefined>;

const EXIT_STATUS = { valid: 0, invalid: 1, unreadable: 2 } as const;

/** Checks files in sequence and prints the findings. Returns the highest exit status and the result of each file. */
export async function checkFiles(
  files: readonly string[],
  values: OptionValues<typeof CHECK_OPTIONS>,
  { out, log, io }: Context,
  check: InventoryCheck,
): Promise<{ exitStatus: number; results: FileResult[] }> {
  const isTerminal = io.isTTY ?? ('isTTY' in io.stdout && io.stdout.isTTY === true);
  // Any non-empty value disables colours: https://no-color.org
  const isColored = isTerminal && !io.env['NO_COLOR'];
  const reporter = REPORTERS[values.format ?? 'text']({ showsExcerpts: isTerminal, isColored });
  const results: FileResult[] = [];
  await out.write(reporter.formatStart());
  for (const file of files) {
    const findings = check(file === '-' ? io.stdin : { path: file }, {
      file: formatFileLabel(file),
      ...(values['input-format'] && { format: values['input-format'] }),
      ...(values['max-errors'] && { maxErrors: values['max-errors'] }),
    });
    const result = await reportFindings(findings, formatFileLabel(file), out, reporter);
    if (result.reason !== undefined) log(result.reason);
    await out.write(reporter.formatFileEnd(result));
    results.push(result);
  }
  const exitStatus = Math.max(...results.map(({ status }) => EXIT_STATUS[status]));
  await out.write(reporter.formatEnd(exitStatus));
  return { exitStatus, results };
}

async function reportFindings(
  uncheckedFindings: ReturnType<InventoryCheck>,
  file: string,
  out: Context['out'],
  reporter: Reporter,
): Promise<FileResult> {
  const counts = { errors: 0, warnings: 0 };
  let status: FileResult['status'] = 'valid';
  await using findings = uncheckedFindings;
  try {
    let iteration = await findings.next();
    while (!iteration.done) {
      const { severity, code } = iteration.value;
      counts[severity === 'error' ? 'errors' : 'warnings'] += 1;
      if (severity === 'error') status = 'invalid';
      if (code === 'encoding/utf-16') status = 'unreadable';
      await out.write(reporter.formatFinding(iteration.value));
      // Further findings would not change the exit status, and nothing reads the output.
      if (out.isClosed && status !== 'valid') {
        return { file, status, records: 0, ...counts, isComplete: false };
      }
      iteration = await findings.next();
    }
    const { records, ...summary } = iteration.value;
    return { file, status, records, ...counts, ...summary };
  } catch (error) {
    const readError = toReadError(error, file);
    if (!(readError instanceof UsageError)) throw error;
    return { file, status: 'unreadable', ...counts, isComplete: false, reason: readError.message };
  }
}

/**
 * Calls `check` now and after each change of the files, until the signal aborts or the process ends.
 * @returns The result of the last call.
 * @throws UsageError if the files include standard input or cannot be watched.
 */
async function watchFiles(
  files: string[],
  signal: AbortSignal | undefined,
  check: () => Promise<number>,
): Promise<number> {
  if (files.includes('-')) throw new UsageError('standard input cannot be watched; name files');
  const { watch } = await import('chokidar');
  const watcher = watch(files, { ignoreInitial: true, atomic: true });
  let nextChange = Promise.withResolvers<void>();
  const onChange = () => nextChange.resolve();
  watcher.on('all', onChange);
  signal?.addEventListener('abort', onChange);
  const watchFailure = new Promise<never>((_, reject) => {
    watcher.on('error', (cause) => {
      const reason = cause instanceof Error ? cause.message : String(cause);
      const message = `cannot watch the files: ${reason}; check again by hand`;
      reject(new UsageError(message, { cause }));
    });
  });
  try {
    // The watcher misses changes before it is ready, so the first check waits for it.
    if (!signal?.aborted)
      await Promise.race([once(watcher, 'ready'), nextChange.promise, watchFailure]);
    for (;;) {
      nextChange = Promise.withResolvers();
      const status = await check();
      if (!signal?.aborted) await Promise.race([nextChange.promise, watchFailure]);
      if (signal?.aborted) return status;
    }
  } finally {
    signal?.removeEventListener('abort', onChange);
    await watcher.close();
  }
}
