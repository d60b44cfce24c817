import { OUTPUT_FORMATS } from '../output/reporters.ts';
import { choice, wholeNumber } from './arguments.ts';
import type { CheckedFiles } from './check-files.ts';
import { inputFiles } from './input-files.ts';
import { INPUT_FORMAT_OPTION, inputFormatOf } from './input-format.ts';

/** The options that all commands have which check files. */
export const CHECK_OPTIONS = {
  format: { type: 'string' },
  ...INPUT_FORMAT_OPTION,
  'max-errors': { type: 'string' },
} as const;

/** What the help says about them. */
export const CHECK_OPTIONS_HELP = `  --format text|json|sarif|github   how findings are printed (default: text)
  --input-format json|jsonl|yaml    how every FILE is read, whatever its name
  --max-errors N                    stop reading a FILE after N errors`;

type Values = { [Key in keyof typeof CHECK_OPTIONS]?: string | boolean | undefined };

/** What `parseArguments` gave for them, checked. Throws UsageError. */
export async function checkedFiles(
  positionals: string[],
  values: Values & { format?: string; 'input-format'?: string; 'max-errors'?: string },
): Promise<CheckedFiles> {
  return {
    files: await inputFiles(positionals),
    format: choice('--format', OUTPUT_FORMATS, values.format) ?? 'text',
    inputFormat: inputFormatOf(values),
    maxErrors: wholeNumber('--max-errors', 1, values['max-errors']),
  };
}
