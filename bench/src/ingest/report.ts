import { type Goal, formatGoals, formatNumber, formatRange, formatTable } from '../report.ts';
import type { Options } from '../options.ts';
import { ratio, summarize } from '../statistics.ts';
import type { Sample } from './variants.ts';

/** Returns the rate in accepted payloads per second. */
export function computeRate({ accepted, seconds }: Sample): number {
  return accepted / seconds;
}

type Findings = {
  options: Options;
  connections: number;
  samples: ReadonlyMap<string, readonly Sample[]>;
  goals: readonly Goal[];
};

/** Returns the results as Markdown. */
export function formatReport({ options, connections, samples, goals }: Findings): string {
  const { rounds, seconds, isSmokeRun } = options;
  return [
    `Rounds: ${rounds}, of ${seconds} s for each variant, over ${connections} connections. Medians, with the ` +
      'minimum and maximum; ratios compare rates within a round. Each round counts the sent, accepted and ' +
      'stored payloads.' +
      (isSmokeRun ? ' This was a smoke run, which is too short to measure speed.' : ''),
    formatSpeeds(samples),
    ...(goals.length > 0 ? ['## Goals', formatGoals(goals)] : []),
  ].join('\n\n');
}

function formatSpeeds(samples: Findings['samples']): string {
  const [first = []] = samples.values();
  return formatTable(
    ['', 'payloads/s', 'collector ÷', 'p50 ms', 'p99 ms', 'CPU µs/payload', 'stored'],
    [...samples].map(([name, variantSamples]) => [
      name,
      formatRange(summarize(variantSamples.map(computeRate))),
      formatRange(ratio(first.map(computeRate), variantSamples.map(computeRate)), 2),
      formatMedian(
        variantSamples.map(({ latency }) => latency?.p50),
        1,
      ),
      formatMedian(
        variantSamples.map(({ latency }) => latency?.p99),
        1,
      ),
      formatMedian(variantSamples.map(({ cpuMs, accepted }) => cpuMs && (1000 * cpuMs) / accepted)),
      formatNumber(variantSamples.reduce((sum, { stored }) => sum + stored, 0)),
    ]),
  );
}

/** Formats the median; returns an empty string if there are no values. */
function formatMedian(values: readonly (number | undefined)[], decimals = 0): string {
  const measuredValues = values.filter((value) => value !== undefined);
  return measuredValues.length === 0
    ? ''
    : formatNumber(summarize(measuredValues).median, decimals);
}
