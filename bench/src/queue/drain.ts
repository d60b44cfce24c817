import { orderForRound } from '../load/rounds.ts';
import type { Context } from '../suite.ts';
import { CONCURRENCY, startQueue, collector, type Variant, variants } from './variants.ts';
import type { DrainResult } from './servers/queue.ts';

export type DrainSample = DrainResult & { variant: string; round: number };

/** Number of initial jobs per second of the measurement. */
const INITIAL_JOBS_PER_SECOND = 20_000;

/** Returns the rate in jobs per second. */
export function computeJobRate({ jobs, seconds }: DrainResult): number {
  return jobs / seconds;
}

/**
 * Returns a failure unless jobs started, and each of them started only once and ended. A stopped peer may leave jobs in
 * progress unfinished.
 */
export function findCountMismatches(sample: DrainSample & { enqueuedCount: number }): string[] {
  const { variant, enqueuedCount, startedCount, restartedCount, remainingCount } = sample;
  const unfinishedCount = startedCount - (enqueuedCount - remainingCount);
  const maxUnfinished = variant === collector.name ? 0 : CONCURRENCY;
  if (
    startedCount > 0 &&
    restartedCount === 0 &&
    unfinishedCount >= 0 &&
    unfinishedCount <= maxUnfinished
  ) {
    return [];
  }
  return [
    `${variant}: ${enqueuedCount} jobs enqueued, ${startedCount} started, ${restartedCount} restarted, ` +
      `${remainingCount} remaining`,
  ];
}

/** Measures the rate at which each queue runs empty jobs. Each measurement uses a new database. */
export async function measureDrain(
  context: Context,
): Promise<{ samples: Map<string, DrainSample[]>; failures: string[] }> {
  const { options, results, logProgress } = context;
  const samples = new Map<string, DrainSample[]>(variants.map(({ name }) => [name, []]));
  const failures: string[] = [];
  for (let round = 1; round <= options.rounds; round += 1) {
    for (const variant of orderForRound(round, variants)) {
      const sample = { variant: variant.name, round, ...(await drain(variant, context)) };
      await results.keep('drain', sample);
      samples.get(variant.name)?.push(sample);
      logProgress(
        `round ${round} of ${options.rounds}: ${variant.name}: ${Math.round(computeJobRate(sample))} jobs/s`,
      );
      failures.push(...findCountMismatches(sample));
    }
  }
  return { samples, failures };
}

async function drain(
  variant: Variant,
  { options, databases, signal }: Context,
): Promise<DrainResult & { enqueuedCount: number }> {
  await using database = await databases.createDatabase();
  await using scope = new AsyncDisposableStack();
  const queue = await startQueue(scope, variant, { databaseUrl: database.url, signal });
  const { seconds } = options;
  const jobs = Math.round(seconds * INITIAL_JOBS_PER_SECOND);
  return {
    enqueuedCount: jobs,
    ...(await queue.call('drain', { jobs, seconds, concurrency: CONCURRENCY })),
  };
}
