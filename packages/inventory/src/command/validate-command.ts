import { githubReporter } from '../output/github.ts';
import { jsonReporter } from '../output/json.ts';
import { Printer } from '../output/printer.ts';
import type { FileResult, Reporter } from '../output/reporter.ts';
import { sarifReporter } from '../output/sarif.ts';
import { textReporter } from '../output/text.ts';
import { visible } from '../output/visible.ts';
import { validateInventory } from '../validate.ts';
import type { InventoryIo } from './io.ts';
import { parseValidateArguments, VALIDATE_HELP } from './validate-arguments.ts';
import type { ValidateArguments } from './validate-arguments.ts';

const EXIT_STATUS = { valid: 0, invalid: 1, unreadable: 2 } as const;

/** `oselya inventory validate` (Contract 5). Gives the exit status; throws UsageError. */
export async function runValidate(argv: string[], io: InventoryIo): Promise<number> {
  const out = new Printer(io.stdout);
  const args = parseValidateArguments(argv);
  if (args === null) {
    await out.write(VALIDATE_HELP);
    return 0;
  }
  const reporter = reporterFor(args.format, io);
  let exitStatus = 0;
  await out.write(reporter.begin());
  for (const file of args.files) {
    const result = await validateFile(file, args, io, out, reporter);
    if (result.reason !== undefined) {
      io.stderr.write(visible(`oselya inventory validate: ${result.reason}`) + '\n');
    }
    await out.write(reporter.fileEnd(result));
    exitStatus = Math.max(exitStatus, EXIT_STATUS[result.status]);
  }
  await out.write(reporter.end(exitStatus));
  return exitStatus;
}

async function validateFile(
  file: string,
  { inputFormat, maxErrors }: ValidateArguments,
  io: InventoryIo,
  out: Printer,
  reporter: Reporter,
): Promise<FileResult> {
  const isStdin = file === '-';
  const label = isStdin ? '<stdin>' : file;
  await using findings = validateInventory(isStdin ? io.stdin : { path: file }, {
    file: label,
    ...(inputFormat && { format: inputFormat }),
    ...(maxErrors && { maxErrors }),
  });
  const result: FileResult = {
    file: label,
    status: 'valid',
    records: 0,
    errors: 0,
    warnings: 0,
    isComplete: false,
  };
  try {
    let step = await findings.next();
    while (!step.done) {
      const { severity, code } = step.value;
      result[severity === 'error' ? 'errors' : 'warnings'] += 1;
      if (severity === 'error') result.status = 'invalid';
      if (code === 'encoding/utf-16') result.status = 'unreadable';
      await out.write(reporter.finding(step.value));
      // With nobody left to read, the rest of an invalid file cannot change the exit status.
      if (out.isClosed && result.status !== 'valid') return result;
      step = await findings.next();
    }
    return { ...result, ...step.value };
  } catch (error) {
    if (!isSystemError(error)) throw error;
    return { ...result, status: 'unreadable', reason: `cannot read ${label}: ${causeOf(error)}` };
  }
}

function reporterFor(format: ValidateArguments['format'], io: InventoryIo): Reporter {
  if (format === 'json') return jsonReporter();
  if (format === 'sarif') return sarifReporter();
  if (format === 'github') return githubReporter();
  const isTerminal = io.isTTY ?? ('isTTY' in io.stdout && io.stdout.isTTY === true);
  // https://no-color.org: any value that is not empty turns colours off.
  const isColored = isTerminal && !io.env['NO_COLOR'];
  return textReporter({ showsExcerpts: isTerminal, isColored });
}

function isSystemError(error: unknown): error is NodeJS.ErrnoException {
  return error instanceof Error && 'syscall' in error && 'code' in error;
}

function causeOf(error: NodeJS.ErrnoException): string {
  switch (error.code) {
    case 'ENOENT':
      return 'there is no such file; check the path';
    case 'EACCES':
      return 'permission denied; ask for the right to read it';
    case 'EISDIR':
      return 'it is a folder; name the file in it';
    default:
      return error.message;
  }
}
