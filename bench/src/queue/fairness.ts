import { summarize, type Summary } from '../statistics.ts';
import type { Context } from '../suite.ts';
import { CONCURRENCY, startQueue, collector, waitUntil } from './variants.ts';

/** Delay of single payloads during another source's backlog. */
export type Fairness = {
  /** Number of payloads of the other source. */
  backlog: number;
  singles: number;
  /** From the moment when each was sent to its start, in milliseconds. */
  waitMs: Summary;
  /** Payloads of the backlog that were started from the first of these to the last. */
  startedMeanwhile: number;
};

const SIZE = { whole: { backlog: 100_000, singles: 20 }, smoke: { backlog: 5000, singles: 3 } };

/** Measures the delay of single payloads during a large backlog of another source. */
export async function measureFairness(
  context: Context,
): Promise<{ fairness: Fairness; failures: string[] }> {
  const { options, databases, results, signal, logProgress } = context;
  const { backlog, singles } = options.smoke ? SIZE.smoke : SIZE.whole;
  logProgress(`fairness: ${backlog} payloads of one source, single ones of another`);
  await using database = await databases.createDatabase();
  await using scope = new AsyncDisposableStack();
  const setup = { databaseUrl: database.url, signal };
  const worker = await startQueue(scope, collector, setup);
  const sender = await startQueue(scope, collector, setup);
  await worker.call('fill', { count: backlog, groups: 1 });
  await worker.call('work', { concurrency: CONCURRENCY });

  const waits: number[] = [];
  const marks: number[] = [];
  for (let nth = 0; nth < singles; nth += 1) {
    const [[key, at] = ['', 0]] = await sender.call('send', {
      count: 1,
      perSecond: 1,
      prefix: `${nth}/`,
    });
    const starts = await waitUntil('a single payload to start', async () => {
      const started = await worker.call('started');
      return started.some(([other]) => other === key) && started;
    });
    const place = starts.findIndex(([other]) => other === key);
    waits.push((starts[place]?.[1] ?? Infinity) - at);
    marks.push(place);
  }
  const left = await worker.call('left');
  await worker.call('stop');
  const startedMeanwhile = (marks.at(-1) ?? 0) - (marks[0] ?? 0);
  const fairness = { backlog, singles, waitMs: summarize(waits), startedMeanwhile };
  await results.keep('fairness', fairness);
  const failures =
    left === 0 ? ['fairness: the backlog ended before the single payloads came'] : [];
  return { fairness, failures };
}
