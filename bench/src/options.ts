import { parseArgs } from 'node:util';

/** Options of a run. */
export type Options = {
  /** Number of measurements of each variant. */
  rounds: number;
  /** Duration of a measurement in seconds, after a warm-up. */
  seconds: number;
  connections: number;
  /** Whether to check only responses and counts, without evaluating speed. */
  isSmokeRun: boolean;
  /** File for the raw results, instead of a new file in bench/results. */
  out: string | undefined;
  /** Database sizes of the suite `search`, in listings; the suite has defaults. */
  listings?: number[];
  /** Duration of the suite `soak` in minutes; the suite has a default. */
  minutes?: number;
  /** Whether to keep the listing databases for the next run. */
  keep?: true;
};

/** Invalid command-line argument. */
export class UsageError extends Error {
  override readonly name = 'UsageError';
}

/** Usage line of the command. */
export const USAGE =
  'npm run bench -- SUITE [--rounds N] [--seconds S] [--connections C] [--smoke] [--out FILE] [--listings N,N] [--keep] [--minutes M]';

const DEFAULTS = { rounds: 3, seconds: 5, connections: 50 };
const MAX_LISTINGS = 100_000_000;
const MAX_MINUTES = 7 * 24 * 60;
const SMOKE = { rounds: 1, seconds: 0.5, connections: 10 };

/**
 * Parses the arguments of the command.
 * @returns The options and the name of the suite, which is undefined without arguments.
 * @throws UsageError for invalid arguments.
 */
export function readArguments(args: readonly string[]): {
  suite: string | undefined;
  options: Options;
} {
  const { values, positionals } = parseOptions(args);
  const [suite, ...surplus] = positionals;
  if (surplus.length > 0) throw new UsageError('more than one suite specified: name one suite');
  if (suite === undefined && args.length > 0)
    throw new UsageError('no suite specified: name one suite');
  const isSmokeRun = values.smoke ?? false;
  const defaults = isSmokeRun ? SMOKE : DEFAULTS;
  return {
    suite,
    options: {
      rounds: parseInteger('rounds', values.rounds, defaults.rounds, 100),
      seconds: parseNumber('seconds', values.seconds, defaults.seconds, 600),
      connections: parseInteger('connections', values.connections, defaults.connections, 1000),
      isSmokeRun,
      out: values.out,
      ...(values.listings && {
        listings: values.listings
          .split(',')
          .map((count) => parseInteger('listings', count, 0, MAX_LISTINGS)),
      }),
      ...(values.keep && { keep: true }),
      ...(values.minutes && { minutes: parseNumber('minutes', values.minutes, 0, MAX_MINUTES) }),
    },
  };
}

function parseOptions(args: readonly string[]) {
  try {
    return parseArgs({
      args: [...args],
      allowPositionals: true,
      options: {
        rounds: { type: 'string' },
        seconds: { type: 'string' },
        connections: { type: 'string' },
        smoke: { type: 'boolean' },
        out: { type: 'string' },
        listings: { type: 'string' },
        keep: { type: 'boolean' },
        minutes: { type: 'string' },
      },
    });
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new UsageError(reason.replace(/\n.*/s, '').replace(/\.$/, ''));
  }
}

function parseInteger(
  name: string,
  text: string | undefined,
  fallback: number,
  max: number,
): number {
  const value = parseNumber(name, text, fallback, max);
  if (!Number.isInteger(value)) throw new UsageError(`--${name} must be a whole number`);
  return value;
}

function parseNumber(
  name: string,
  text: string | undefined,
  fallback: number,
  max: number,
): number {
  if (text === undefined) return fallback;
  const value = /^\d+(\.\d+)?$/.test(text) ? Number(text) : Number.NaN;
  if (!(value > 0 && value <= max)) {
    throw new UsageError(`--${name} must be a number greater than 0 and at most ${max}`);
  }
  return value;
}
