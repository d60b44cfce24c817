import { type Goal, formatNumber, formatRange } from '../report.ts';
import { ratio, summarize } from '../statistics.ts';
import { type Findings, pairRates, type Sample } from './report.ts';
import { KINDS, type Kind, RANKED_KINDS, type RankedKind } from './questions.ts';

const MAX_LISTED_MS = 50;
const MAX_COUNTED_MS = 100;
const MAX_GROWTH = 2;
const MIN_STATEMENT_SHARE = 0.8;
const MIN_RECALL = 0.95;

/** Evaluates latency on the largest database, its growth from the smallest, and recall and ranking on all. */
export function evaluateGoals(findings: readonly Findings[]): Goal[] {
  const bySize = findings.toSorted((a, b) => a.listings - b.listings);
  const [smallest, largest] = [bySize.at(0), bySize.at(-1)];
  if (smallest === undefined || largest === undefined) return [];
  return [
    ...KINDS.map((kind) => createTimeGoal(kind, largest)),
    ...RANKED_KINDS.flatMap((kind) => createRateGoals(kind, largest)),
    ...(smallest === largest ? [] : KINDS.map((kind) => createGrowthGoal(kind, smallest, largest))),
    ...findings.flatMap(createRecallGoals),
    ...findings.map(createEqualityGoal),
  ];
}

function createRateGoals(kind: RankedKind, findings: Findings): Goal[] {
  const { searchRates, statementRates } = pairRates(findings, kind);
  if (statementRates.length === 0) return [];
  const share = ratio(searchRates, statementRates);
  return [
    {
      goal: `${kind}: at least ${MIN_STATEMENT_SHARE} × the rate of the same statements with pgbench, ${formatNumber(findings.listings)} listings`,
      measured: formatRange(share, 2),
      isMet: share.median >= MIN_STATEMENT_SHARE,
    },
  ];
}

/** Returns the 95th-percentile latency of one kind of search in each round. */
function listP95s(samples: readonly Sample[], kind: Kind): number[] {
  return samples.filter((sample) => sample.kind === kind).map(({ all }) => all.p95);
}

function createTimeGoal(kind: Kind, { listings, singleClientSamples }: Findings): Goal {
  const p95 = summarize(listP95s(singleClientSamples, kind));
  const maxMs = kind === 'facets' || kind === 'points' ? MAX_COUNTED_MS : MAX_LISTED_MS;
  return {
    goal: `${kind}: p95 at most ${maxMs} ms with one client and ${formatNumber(listings)} listings`,
    measured: `${formatRange(p95, 1)} ms`,
    isMet: p95.median <= maxMs,
  };
}

function createGrowthGoal(kind: Kind, small: Findings, large: Findings): Goal {
  const growth = ratio(listP95s(large.samples, kind), listP95s(small.samples, kind));
  const sizes = `${formatNumber(large.listings)} against ${formatNumber(small.listings)} listings`;
  return {
    goal: `${kind}: at most ${MAX_GROWTH} × the p95, ${sizes}`,
    measured: formatRange(growth, 2),
    isMet: growth.median <= MAX_GROWTH,
  };
}

function createRecallGoals({ listings, recalls, churned }: Findings): Goal[] {
  const when = { changed: ' after changes', vacuumed: ' after changes and a vacuum' };
  return [
    { recalls, when: '' },
    ...churned.map((result) => ({ recalls: result.recalls, when: when[result.state] })),
  ].flatMap((measurement) =>
    measurement.recalls.map(({ filter, recall }) => ({
      goal: `recall@10 at least ${MIN_RECALL}${measurement.when}, filter ${filter}, ${formatNumber(listings)} listings`,
      measured: formatNumber(recall, 3),
      isMet: recall >= MIN_RECALL,
    })),
  );
}

function createEqualityGoal({ listings, equality }: Findings): Goal {
  const { whole, inBlocks, failures } = equality;
  return {
    goal: `full-text results equal the exact ranking, ${formatNumber(listings)} listings`,
    measured: `${whole + inBlocks - failures.length} of ${whole + inBlocks} are equal`,
    isMet: failures.length === 0,
  };
}
