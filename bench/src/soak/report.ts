import { type Goal, formatGoals, figure, table } from '../report.ts';
import type { Comparison } from './compare.ts';

type Findings = {
  seconds: number;
  listings: number;
  ingestRate: number;
  searchRate: number;
  sent: number;
  removed: number;
  smoke: boolean;
  comparisons: readonly Comparison[];
  goals: readonly Goal[];
};

/** Returns the goals of figures with limited growth. */
export function judgeGrowth(comparisons: readonly Comparison[]): Goal[] {
  return comparisons.flatMap((one) => [...ratioGoals(one), ...hourlyGoals(one)]);
}

function ratioGoals({ name, ratio, most }: Comparison): Goal[] {
  if (most === undefined) return [];
  const goal = `${name}: at the end at most ${figure(most, 2)} × the beginning`;
  return [{ goal, measured: figure(ratio, 2), met: ratio <= most }];
}

function hourlyGoals({ name, first, perHour, mostPerHour }: Comparison): Goal[] {
  if (mostPerHour === undefined) return [];
  const percent = perHour === 0 ? 0 : (100 * perHour) / first;
  const goal = `${name}: in an hour at most ${figure(100 * mostPerHour)} % more`;
  return [{ goal, measured: `${figure(percent, 1)} %`, met: percent <= 100 * mostPerHour }];
}

/** Returns the results as Markdown. */
export function formatReport(found: Findings): string {
  const { seconds, listings, ingestRate, searchRate, sent, removed, smoke, comparisons, goals } =
    found;
  return [
    `${figure(seconds / 60, 1)} minutes of ${ingestRate} payloads a second, of ${figure(listings)} listings in ` +
      `turn, and ${searchRate} searches of each kind a second. ${figure(sent)} payloads were sent and ` +
      `completed, ${figure(removed)} of them removed since, two minutes after they came. The first five minutes and the last, or the ` +
      'first and the last sixth of a shorter run: medians of the samples, of dead rows the most, of ' +
      'temporary files the least. Dead rows up to a fifth of the live ones, which autovacuum leaves, count as a ' +
      'fifth. `per hour` is the slope over all samples: the median of those between any two.' +
      (smoke ? ' This was a smoke run: too short to say anything.' : ''),
    table(
      ['', 'first', 'last', 'ratio', 'per hour'],
      comparisons.map(({ name, unit, first, last, ratio, perHour }) => [
        unit === '' ? name : `${name}, ${unit}`,
        figure(first, unit === '' ? 0 : 2),
        figure(last, unit === '' ? 0 : 2),
        figure(ratio, 2),
        figure(perHour, unit === '' ? 0 : 2),
      ]),
    ),
    ...(goals.length > 0 ? ['## Goals', formatGoals(goals)] : []),
  ].join('\n\n');
}
