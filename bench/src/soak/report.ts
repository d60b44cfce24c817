import { type Goal, formatGoals, formatNumber, formatTable } from '../report.ts';
import type { Comparison } from './compare.ts';

type Findings = {
  seconds: number;
  listings: number;
  ingestRate: number;
  searchRate: number;
  sentCount: number;
  removedCount: number;
  isSmokeRun: boolean;
  comparisons: readonly Comparison[];
  goals: readonly Goal[];
};

/** Evaluates the growth of each metric that has a limit. */
export function evaluateGrowth(comparisons: readonly Comparison[]): Goal[] {
  return comparisons.flatMap((comparison) => [
    ...createRatioGoals(comparison),
    ...createHourlyGoals(comparison),
  ]);
}

function createRatioGoals({ name, ratio, maxRatio }: Comparison): Goal[] {
  if (maxRatio === undefined) return [];
  const goal = `${name}: at the end at most ${formatNumber(maxRatio, 2)} × the beginning`;
  return [{ goal, measured: formatNumber(ratio, 2), isMet: ratio <= maxRatio }];
}

function createHourlyGoals({ name, first, hourlySlope, maxHourlyGrowth }: Comparison): Goal[] {
  if (maxHourlyGrowth === undefined) return [];
  const percent = hourlySlope === 0 ? 0 : (100 * hourlySlope) / first;
  const goal = `${name}: in an hour at most ${formatNumber(100 * maxHourlyGrowth)} % more`;
  return [
    { goal, measured: `${formatNumber(percent, 1)} %`, isMet: percent <= 100 * maxHourlyGrowth },
  ];
}

/** Returns the results as Markdown. */
export function formatReport(findings: Findings): string {
  const {
    seconds,
    listings,
    ingestRate,
    searchRate,
    sentCount,
    removedCount,
    isSmokeRun,
    comparisons,
    goals,
  } = findings;
  return [
    `${formatNumber(seconds / 60, 1)} minutes of ${ingestRate} payloads per second, which repeat ${formatNumber(listings)} ` +
      `listings, and ${searchRate} searches of each kind per second. ${formatNumber(sentCount)} payloads were sent and ` +
      `completed; ${formatNumber(removedCount)} of them were removed two minutes after they arrived. The table compares ` +
      'the first five minutes with the last, or the first sixth of a shorter run with its last: the median of ' +
      'the samples, the maximum of dead rows, and the minimum of temporary files. Autovacuum tolerates dead rows ' +
      'up to a fifth of the live rows, so fewer dead rows count as a fifth. `per hour` is the median slope ' +
      'between any two samples.' +
      (isSmokeRun ? ' This was a smoke run, which is too short to measure growth.' : ''),
    formatTable(
      ['', 'first', 'last', 'ratio', 'per hour'],
      comparisons.map(({ name, unit, first, last, ratio, hourlySlope }) => [
        unit === '' ? name : `${name}, ${unit}`,
        formatNumber(first, unit === '' ? 0 : 2),
        formatNumber(last, unit === '' ? 0 : 2),
        formatNumber(ratio, 2),
        formatNumber(hourlySlope, unit === '' ? 0 : 2),
      ]),
    ),
    ...(goals.length > 0 ? ['## Goals', formatGoals(goals)] : []),
  ].join('\n\n');
}
