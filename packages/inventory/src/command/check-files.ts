import type { InventoryFormat } from '../input/format.ts';
import type { Finding } from '../finding.ts';
import type { InventorySource } from '../input/source.ts';
import { reporterFor, type OutputFormat } from '../output/reporters.ts';
import type { FileResult } from '../output/reporter.ts';
import type { ValidateOptions, ValidationSummary } from '../check/validate.ts';
import type { Context } from './command.ts';
import { readFailure } from './file-failure.ts';

const EXIT_STATUS = { valid: 0, invalid: 1, unreadable: 2 } as const;

/** Finds what is wrong with one file; `validateInventory` is of this shape. */
export type Check = (
  source: InventorySource,
  options: ValidateOptions & { file: string },
) => AsyncGenerator<Finding, ValidationSummary, undefined>;

/** Which files are checked, and how their findings are printed. */
export type CheckedFiles = {
  files: readonly string[];
  format: OutputFormat;
  inputFormat: InventoryFormat | undefined;
  maxErrors: number | undefined;
};

/** Checks files one after another and prints what is found. Gives the exit status of the worst. */
export async function checkFiles(
  checked: CheckedFiles,
  { io, out, tell }: Context,
  check: Check,
): Promise<{ exitStatus: number; results: FileResult[] }> {
  const reporter = reporterFor(checked.format, io);
  const results: FileResult[] = [];
  await out.write(reporter.begin());
  for (const file of checked.files) {
    const result = await checkFile(file);
    if (result.reason !== undefined) {
      tell(result.reason);
    }
    await out.write(reporter.fileEnd(result));
    results.push(result);
  }
  const exitStatus = Math.max(...results.map(({ status }) => EXIT_STATUS[status]));
  await out.write(reporter.end(exitStatus));
  return { exitStatus, results };

  async function checkFile(file: string): Promise<FileResult> {
    const { inputFormat, maxErrors } = checked;
    const isStdin = file === '-';
    const label = isStdin ? '<stdin>' : file;
    await using findings = check(isStdin ? io.stdin : { path: file }, {
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
      const reason = readFailure(error, label);
      if (reason === undefined) throw error;
      // How many records there were before is known to nobody any more.
      const { records: _unknown, ...known } = result;
      return { ...known, status: 'unreadable', reason };
    }
  }
}
