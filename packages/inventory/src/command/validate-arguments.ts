import { parseArgs } from 'node:util';
import { UsageError } from './usage-error.ts';

export const VALIDATE_HELP = `Usage: oselya inventory validate [options] FILE...

Checks endpoint inventories against endpoint.schema.json and reports every error with its line,
column, JSON pointer and record id. A FILE is one JSON array, or one record a line when its name
ends in .jsonl; - is standard input.

Options:
  --format text|json|sarif|github   how findings are printed (default: text)
  --input-format json|jsonl         how every FILE is read, whatever its name
  --max-errors N                    stop reading a FILE after N errors
  --help                            print this text

Exit status: 0 valid, 1 invalid, 2 unreadable or wrong use.
`;

export const OUTPUT_FORMATS = ['text', 'json', 'sarif', 'github'] as const;
const INPUT_FORMATS = ['json', 'jsonl'] as const;

export interface ValidateArguments {
  files: string[];
  format: (typeof OUTPUT_FORMATS)[number];
  inputFormat: (typeof INPUT_FORMATS)[number] | undefined;
  maxErrors: number | undefined;
}

/** Reads the arguments of `validate`; null when help is wanted. Throws UsageError. */
export function parseValidateArguments(argv: string[]): ValidateArguments | null {
  const { values, positionals } = parse(argv);
  if (values.help) return null;
  if (positionals.length === 0) {
    throw new UsageError('no file is given; name a FILE, or - for standard input');
  }
  if (positionals.filter((file) => file === '-').length > 1) {
    throw new UsageError('standard input can be read once; give - once');
  }
  return {
    files: positionals,
    format: choice('--format', OUTPUT_FORMATS, values.format) ?? 'text',
    inputFormat: choice('--input-format', INPUT_FORMATS, values['input-format']),
    maxErrors: positiveInteger('--max-errors', values['max-errors']),
  };
}

function parse(argv: string[]) {
  try {
    return parseArgs({
      args: argv,
      allowPositionals: true,
      options: {
        format: { type: 'string' },
        'input-format': { type: 'string' },
        'max-errors': { type: 'string' },
        help: { type: 'boolean', short: 'h' },
      },
    });
  } catch (error) {
    if (!(error instanceof TypeError)) throw error;
    // Node's message goes on with advice about `--`; its first sentence says what is wrong.
    const [sentence = ''] = error.message.split(/\.\s/);
    const advice = 'see oselya inventory validate --help';
    throw new UsageError(`${sentence.replaceAll('\n', ' ')}; ${advice}`, { cause: error });
  }
}

function choice<T extends string>(
  option: string,
  allowed: readonly T[],
  given: string | undefined,
): T | undefined {
  if (given === undefined) return undefined;
  const found = allowed.find((value) => value === given);
  if (found !== undefined) return found;
  throw new UsageError(`${option} must be one of ${allowed.join(', ')}, not "${given}"`);
}

function positiveInteger(option: string, given: string | undefined): number | undefined {
  if (given === undefined) return undefined;
  if (/^[1-9]\d{0,8}$/.test(given)) return Number(given);
  throw new UsageError(`${option} must be a whole number from 1 to 999999999, not "${given}"`);
}
