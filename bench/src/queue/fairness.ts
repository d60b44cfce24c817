import { summarize, type Summary } from '../statistics.ts';
import type { Context } from '../suite.ts';
import { CONCURRENCY, startQueue, collector, waitUntil } from './variants.ts';

/** Delay of single payloads while another source has a backlog. */
export type Fairness = {
  /** Number of payloads of the other source. */
  backlog: number;
  singles: number;
  /** Time from sending a single payload to the start of its job, in milliseconds. */
  waitMs: Summary;
  /** Number of jobs that started after the first single job, up to the last. Almost all are of the backlog. */
  startedMeanwhile: number;
};

const SIZES = { full: { backlog: 100_000, singles: 20 }, smoke: { backlog: 5000, singles: 3 } };

/** Measures the delay of single payloads while another source has a large backlog. */
export async function measureFairness(
  context: Context,
): Promise<{ fairness: Fairness; failures: string[] }> {
  const { options, databases, results, signal, logProgress } = context;
  const { backlog, singles } = options.isSmokeRun ? SIZES.smoke : SIZES.full;
  logProgress(`fairness: ${backlog} payloads of one source, single payloads of another`);
  await using database = await databases.createDatabase();
  await using scope = new AsyncDisposableStack();
  const setup = { databaseUrl: database.url, signal };
  const worker = await startQueue(scope, collector, setup);
  const sender = await startQueue(scope, collector, setup);
  await worker.call('fill', { count: backlog, groups: 1 });
  await worker.call('work', { concurrency: CONCURRENCY });

  const waits: number[] = [];
  const startIndexes: number[] = [];
  for (let single = 0; single < singles; single += 1) {
    const [[key, at] = ['', 0]] = await sender.call('send', {
      count: 1,
      jobsPerSecond: 1,
      prefix: `${single}/`,
    });
    const starts = await waitUntil('the start of a single payload', async () => {
      const startTimes = await worker.call('starts');
      return startTimes.some(([startedKey]) => startedKey === key) && startTimes;
    });
    const startIndex = starts.findIndex(([startedKey]) => startedKey === key);
    waits.push((starts[startIndex]?.[1] ?? Infinity) - at);
    startIndexes.push(startIndex);
  }
  const remainingJobs = await worker.call('countRemaining');
  await worker.call('stop');
  // The other single payloads are not part of the backlog.
  const startedMeanwhile = (startIndexes.at(-1) ?? 0) - (startIndexes[0] ?? 0) - (singles - 1);
  const fairness = { backlog, singles, waitMs: summarize(waits), startedMeanwhile };
  await results.keep('fairness', fairness);
  const failures =
    remainingJobs === 0 ? ['fairness: the backlog ended before the single payloads started'] : [];
  return { fairness, failures };
}
