import { type Goal, formatGoals, figure, spread, table } from '../report.ts';
import type { Options } from '../options.ts';
import { ratio, summarize } from '../statistics.ts';
import { CONCURRENCY } from './variants.ts';
import { type DrainSample, computeJobRate } from './drain.ts';
import type { Fairness } from './fairness.ts';
import type { PickupSample } from './pickup.ts';

type Findings = {
  options: Options;
  samples: ReadonlyMap<string, readonly DrainSample[]>;
  pickups: ReadonlyMap<string, readonly PickupSample[]>;
  fairness: Fairness;
  goals: readonly Goal[];
};

/** Returns the results as Markdown. */
export function formatReport({ options, samples, pickups, fairness, goals }: Findings): string {
  const { rounds, seconds, smoke } = options;
  const { backlog, singles, waitMs, startedMeanwhile } = fairness;
  return [
    `Rounds: ${rounds}, of up to ${seconds} s for each variant, ${CONCURRENCY} jobs at once. Medians, with the ` +
      'least and the most; the ratios are of rates within a round.' +
      (smoke ? ' This was a smoke run: too short to say anything about speed.' : ''),
    '## Jobs that do nothing',
    drainTable(samples),
    '## Pickup at 100 jobs a second',
    pickupTable(pickups),
    '## Fairness',
    `While a backlog of ${figure(backlog)} payloads of one source was worked off, ${singles} payloads of another ` +
      `came one after another. Each was started after ${spread(waitMs, 1)} ms. Meanwhile ` +
      `${figure(startedMeanwhile)} of the backlog were started.`,
    ...(goals.length > 0 ? ['## Goals', formatGoals(goals)] : []),
  ].join('\n\n');
}

function drainTable(samples: Findings['samples']): string {
  const [first = []] = samples.values();
  return table(
    ['', 'jobs/s', 'collector ÷', 'CPU µs/job', 'jobs, each once'],
    [...samples].map(([name, own]) => [
      name,
      spread(summarize(own.map(computeJobRate))),
      spread(ratio(first.map(computeJobRate), own.map(computeJobRate)), 2),
      figure(summarize(own.map(({ cpuMs, jobs }) => (1000 * cpuMs) / jobs)).median),
      figure(own.reduce((sum, { started }) => sum + started, 0)),
    ]),
  );
}

function pickupTable(pickups: Findings['pickups']): string {
  return table(
    ['', 'p50 ms', 'p99 ms', 'max ms', 'jobs'],
    [...pickups].map(([name, own]) => [
      name,
      ...(['p50', 'p99', 'max'] as const).map((share) =>
        spread(summarize(own.map((sample) => sample[share])), 1),
      ),
      figure(own.reduce((sum, { jobs }) => sum + jobs, 0)),
    ]),
  );
}
