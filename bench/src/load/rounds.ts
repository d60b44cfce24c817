import type { Context } from '../suite.ts';
import { checkAnswers, type Counters, type Running } from './variant.ts';
import type { Load, Outcome } from './generator.ts';

export type Sample = Outcome & Counters & { variant: string; round: number };

type RunningVariants = {
  /** Running variants by name. */
  variants: ReadonlyMap<string, Running>;
  /** Sends requests to a server from a separate process. */
  runLoad: (load: Load) => Promise<Outcome>;
  /** Text that every response must contain. */
  expected: string;
};

/** Warm-up duration as a share of the measurement, within limits. It lets connections open and code compile. */
const WARM_UP = { share: 0.4, minSeconds: 0.75, maxSeconds: 2 };

/**
 * Measures every variant once in each round. The order reverses from round to round, so a machine that slows down
 * during a run favours no variant.
 * @returns The samples of each variant in the order of the rounds, and the failures: wrong or missing responses.
 */
export async function measureRounds(
  runningVariants: RunningVariants,
  { options, results, logProgress }: Pick<Context, 'options' | 'results' | 'logProgress'>,
): Promise<{ samples: Map<string, Sample[]>; failures: string[] }> {
  const samples = new Map<string, Sample[]>();
  const failures: string[] = [];
  for (let round = 1; round <= options.rounds; round += 1) {
    for (const variant of orderForRound(round, [...runningVariants.variants.keys()])) {
      const { sample, failures: sampleFailures } = await measure(
        runningVariants,
        variant,
        round,
        options,
      );
      await results.keep('sample', sample);
      samples.set(variant, [...(samples.get(variant) ?? []), sample]);
      failures.push(...sampleFailures.map((failure) => `${variant}: ${failure}`));
      const rate = Math.round(sample.requests / sample.seconds);
      logProgress(`round ${round} of ${options.rounds}: ${variant}: ${rate} requests/s`);
    }
  }
  return { samples, failures };
}

/** Returns the requests per second of a variant in each round. */
export function listRates(
  samples: ReadonlyMap<string, readonly Sample[]>,
  variant: string,
): number[] {
  return (samples.get(variant) ?? []).map(({ requests, seconds }) => requests / seconds);
}

/** Returns the values in order for odd rounds and reversed for even rounds. */
export function orderForRound<Value>(round: number, values: readonly Value[]): readonly Value[] {
  return round % 2 === 1 ? values : values.toReversed();
}

async function measure(
  { variants, runLoad, expected }: RunningVariants,
  variant: string,
  round: number,
  { seconds, connections }: Context['options'],
): Promise<{ sample: Sample; failures: string[] }> {
  const runningVariant = variants.get(variant);
  if (runningVariant === undefined) throw new Error(`${variant} is not running`);
  const targets = await runningVariant.targets();
  const failures = await checkAnswers(runningVariant, targets);
  const load = { url: runningVariant.url, targets, expected, connections, seconds };
  const warmUp = Math.max(seconds * WARM_UP.share, WARM_UP.minSeconds);
  await runLoad({ ...load, seconds: Math.min(warmUp, WARM_UP.maxSeconds) });
  const before = await runningVariant.counters();
  const outcome = await runLoad(load);
  const after = await runningVariant.counters();
  const usage = { cpuMs: after.cpuMs - before.cpuMs, calls: after.calls - before.calls };
  const sample = { variant, round, ...outcome, ...usage };
  return { sample, failures: [...failures, ...findWrongAnswers(outcome)] };
}

function findWrongAnswers({ statuses, errors, wrongBodies }: Outcome): string[] {
  const wrongStatuses = Object.entries(statuses).filter(([status]) => status !== '200');
  return [
    ...wrongStatuses.map(([status, count]) => `${count} responses had the status ${status}`),
    ...(errors > 0 ? [`${errors} requests failed or timed out`] : []),
    ...(wrongBodies > 0 ? [`${wrongBodies} responses lacked the expected text`] : []),
  ];
}
