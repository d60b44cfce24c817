import { type Goal, formatGoals, formatNumber, formatRange, formatTable } from '../report.ts';
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
  const { rounds, seconds, isSmokeRun } = options;
  const { backlog, singles, waitMs, startedMeanwhile } = fairness;
  return [
    `Rounds: ${rounds}, of up to ${seconds} s for each variant, ${CONCURRENCY} concurrent jobs. Medians, with the ` +
      'minimum and maximum; ratios compare rates within a round.' +
      (isSmokeRun ? ' This was a smoke run, which is too short to measure speed.' : ''),
    '## Empty jobs',
    formatDrainTable(samples),
    '## Pickup delay at 100 jobs per second',
    formatPickupTable(pickups),
    '## Fairness',
    `While a backlog of ${formatNumber(backlog)} payloads of one source was processed, ${singles} payloads of another ` +
      `source arrived one after another. They started after ${formatRange(waitMs, 1)} ms. Meanwhile, ` +
      `${formatNumber(startedMeanwhile)} payloads of the backlog started.`,
    ...(goals.length > 0 ? ['## Goals', formatGoals(goals)] : []),
  ].join('\n\n');
}

function formatDrainTable(samples: Findings['samples']): string {
  const [first = []] = samples.values();
  return formatTable(
    ['', 'jobs/s', 'collector ÷', 'CPU µs/job', 'jobs started'],
    [...samples].map(([name, variantSamples]) => [
      name,
      formatRange(summarize(variantSamples.map(computeJobRate))),
      formatRange(ratio(first.map(computeJobRate), variantSamples.map(computeJobRate)), 2),
      formatNumber(
        summarize(variantSamples.map(({ cpuMs, jobs }) => (1000 * cpuMs) / jobs)).median,
      ),
      formatNumber(variantSamples.reduce((sum, { startedCount }) => sum + startedCount, 0)),
    ]),
  );
}

function formatPickupTable(pickups: Findings['pickups']): string {
  return formatTable(
    ['', 'p50 ms', 'p99 ms', 'max ms', 'jobs'],
    [...pickups].map(([name, variantSamples]) => [
      name,
      ...(['p50', 'p99', 'max'] as const).map((share) =>
        formatRange(summarize(variantSamples.map((sample) => sample[share])), 1),
      ),
      formatNumber(variantSamples.reduce((sum, { jobs }) => sum + jobs, 0)),
    ]),
  );
}
