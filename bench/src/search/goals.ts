import { type Goal, figure, spread } from '../report.ts';
import { ratio, summarize } from '../statistics.ts';
import type { Findings, Sample } from './report.ts';
import { KINDS, type Kind } from './questions.ts';

const MAX_LATENCY_MS = 50;
const MAX_GROWTH = 2;
const MIN_RECALL = 0.95;

/** Evaluates the search goals on the smallest and the largest database. */
export function judge(findings: readonly Findings[]): Goal[] {
  const bySize = findings.toSorted((a, b) => a.listings - b.listings);
  const [smallest, largest] = [bySize.at(0), bySize.at(-1)];
  if (smallest === undefined || largest === undefined) return [];
  return [
    ...KINDS.map((kind) => timeGoal(kind, largest)),
    ...(smallest === largest ? [] : KINDS.map((kind) => growthGoal(kind, smallest, largest))),
    ...findings.flatMap(recallGoals),
    ...findings.map(equalityGoal),
  ];
}

/** Returns the 95th percentile of a kind in each round. */
function listP95s(samples: readonly Sample[], kind: Kind): number[] {
  return samples.filter((sample) => sample.kind === kind).map(({ all }) => all.p95);
}

function timeGoal(kind: Kind, { listings, samples }: Findings): Goal {
  const p95 = summarize(listP95s(samples, kind));
  return {
    goal: `${kind}: p95 at most ${MAX_LATENCY_MS} ms with ${figure(listings)} listings`,
    measured: `${spread(p95, 1)} ms`,
    met: p95.median <= MAX_LATENCY_MS,
  };
}

function growthGoal(kind: Kind, small: Findings, large: Findings): Goal {
  const growth = ratio(listP95s(large.samples, kind), listP95s(small.samples, kind));
  const sizes = `${figure(large.listings)} against ${figure(small.listings)} listings`;
  return {
    goal: `${kind}: at most ${MAX_GROWTH} × the p95, ${sizes}`,
    measured: spread(growth, 2),
    met: growth.median <= MAX_GROWTH,
  };
}

function recallGoals({ listings, recalls, churned }: Findings): Goal[] {
  const when = { changed: ' after changes', vacuumed: ' after changes and a vacuum' };
  return [
    { recalls, when: '' },
    ...churned.map((result) => ({ recalls: result.recalls, when: when[result.state] })),
  ].flatMap((measurement) =>
    measurement.recalls.map(({ filter, recall }) => ({
      goal: `recall@10 at least ${MIN_RECALL}${measurement.when}, filter ${filter}, ${figure(listings)} listings`,
      measured: figure(recall, 3),
      met: recall >= MIN_RECALL,
    })),
  );
}

function equalityGoal({ listings, equality }: Findings): Goal {
  const { belowBound, atBound, failures } = equality;
  return {
    goal: `full-text results equal the exact ranking, ${figure(listings)} listings`,
    measured: `${belowBound + atBound - failures.length} of ${belowBound + atBound} are equal`,
    met: failures.length === 0,
  };
}
