import { parseArgs, type ParseArgsConfig } from 'node:util';
import { type Day, readDay, toDay } from '../day.ts';
import { UsageError } from './usage-error.ts';

type Options = NonNullable<ParseArgsConfig['options']>;

/** Reads the arguments of a command. Throws UsageError, whose message names the first that is wrong. */
export function parseArguments<const O extends Options>(
  command: string,
  args: string[],
  options: O,
) {
  try {
    return parseArgs({ args, allowPositionals: true, options });
  } catch (error) {
    if (!(error instanceof TypeError)) throw error;
    // Node's message goes on with advice about `--`; its first sentence says what is wrong.
    const [sentence = ''] = error.message.split(/\.\s/);
    const [, option] = /(--[\w-]+)[^']*' argument is ambiguous/.exec(sentence) ?? [];
    const message =
      option === undefined
        ? sentence.replaceAll('\n', ' ')
        : `${option} has no value; one that begins with a dash is written ${option}=VALUE`;
    throw new UsageError(message, {
      see: `${command} --help`,
      cause: error,
    });
  }
}

/** The value of an option that has to be one of a few. */
export function choice<T extends string>(
  option: string,
  allowed: readonly T[],
  given: string | undefined,
): T | undefined {
  if (given === undefined) return undefined;
  const found = allowed.find((value) => value === given);
  if (found !== undefined) return found;
  throw new UsageError(`${option} must be one of ${allowed.join(', ')}, not "${given}"`);
}

/** The value of an option that counts something. */
export function wholeNumber(
  option: string,
  least: number,
  given: string | undefined,
  most = 999_999_999,
): number | undefined {
  if (given === undefined) return undefined;
  const number = /^\d{1,9}$/.test(given) ? Number(given) : NaN;
  if (number >= least && number <= most) return number;
  throw new UsageError(`${option} must be a whole number from ${least} to ${most}, not "${given}"`);
}

/** The value of `--today`; today in UTC when it is not given. */
export function dayOf(given: string | undefined): Day {
  if (given === undefined) return toDay(new Date());
  const day = readDay(given);
  if (day !== null && day.length === given.length) return day;
  throw new UsageError(`--today must be a day, such as 2026-11-20, not "${given}"`);
}
