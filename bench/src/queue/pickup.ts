import { orderForRound } from '../load/rounds.ts';
import { formatNumber } from '../report.ts';
import { percentiles } from '../statistics.ts';
import type { Context } from '../suite.ts';
import {
  CONCURRENCY,
  startQueue,
  waitUntil,
  collector,
  graphileWorker,
  pgBoss,
  type Variant,
} from './variants.ts';

/** Time from adding a job in one process to its start in another process, in milliseconds. */
export type PickupSample = {
  variant: string;
  round: number;
  jobs: number;
  p50: number;
  p99: number;
  max: number;
};

const comparedVariants: readonly Variant[] = [collector, graphileWorker, pgBoss];

const JOBS_PER_SECOND = 100;
/** Number of initial jobs to exclude, because they include connection set-up and JIT compilation. */
const WARM_UP_JOBS = 100;

/** Measures the delay of jobs that arrive at idle workers at a constant rate. Each measurement uses a new database. */
export async function measurePickup(
  context: Context,
): Promise<{ pickups: Map<string, PickupSample[]>; failures: string[] }> {
  const { options, results, logProgress } = context;
  const pickups = new Map<string, PickupSample[]>(comparedVariants.map(({ name }) => [name, []]));
  const failures: string[] = [];
  for (let round = 1; round <= options.rounds; round += 1) {
    for (const variant of orderForRound(round, comparedVariants)) {
      const { failure, ...delays } = await measure(variant, context);
      const sample = { variant: variant.name, round, ...delays };
      await results.keep('pickup', sample);
      pickups.get(variant.name)?.push(sample);
      logProgress(
        `round ${round} of ${options.rounds}: ${variant.name}: pickup in ${formatNumber(delays.p50, 1)} ms`,
      );
      if (failure !== undefined) failures.push(failure);
    }
  }
  return { pickups, failures };
}

async function measure(
  variant: Variant,
  { options, databases, signal }: Context,
): Promise<Omit<PickupSample, 'variant' | 'round'> & { failure: string | undefined }> {
  await using database = await databases.createDatabase();
  await using scope = new AsyncDisposableStack();
  const setup = { databaseUrl: database.url, signal };
  const worker = await startQueue(scope, variant, setup);
  const sender = await startQueue(scope, variant, setup);
  await worker.call('work', { concurrency: CONCURRENCY });
  const count = Math.round(options.seconds * JOBS_PER_SECOND) + WARM_UP_JOBS;
  const sentJobs = await sender.call('send', { count, jobsPerSecond: JOBS_PER_SECOND });
  const startTimes = await waitUntil(`the start of every job of ${variant.name}`, async () => {
    const starts = await worker.call('starts');
    return starts.length >= count && starts;
  });
  await worker.call('stop');
  const startsByKey = new Map(startTimes);
  const delays = sentJobs
    .slice(WARM_UP_JOBS)
    .map(([key, at]) => (startsByKey.get(key) ?? Infinity) - at);
  const [p50 = 0, p99 = 0, max = 0] = percentiles(delays, [0.5, 0.99, 1]);
  const isWrong = startTimes.length !== count || startsByKey.size !== count;
  const failure = isWrong
    ? `${variant.name}: ${count} jobs sent, ${startTimes.length} started`
    : undefined;
  return { jobs: delays.length, p50, p99, max, failure };
}
