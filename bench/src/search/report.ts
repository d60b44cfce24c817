import { type Goal, formatGoals, formatNumber, formatRange, formatTable } from '../report.ts';
import type { Options } from '../options.ts';
import { median, ratio, summarize } from '../statistics.ts';
import { KINDS, type Kind, RANKED_KINDS, type RankedKind } from './questions.ts';
import type { Equality, Recall } from './check.ts';
import type { ChurnResult } from './churn.ts';

/** One measurement of a kind of search, with latencies in milliseconds. */
export type Sample = {
  listings: number;
  kind: Kind;
  round: number;
  /** Number of concurrent clients. */
  clients: number;
  searches: number;
  seconds: number;
  /** Processor time of the collector's process. */
  cpuMs: number;
  all: Latency;
  groups: Record<string, Latency>;
};

export type Latency = { p50: number; p95: number; max: number; searches: number };

/** Number of searches per second whose statements pgbench runs, in one round. */
export type StatementRate = Pick<Sample, 'listings' | 'round'> & { kind: RankedKind; rate: number };

/** Results for databases of one size. */
export type Findings = {
  listings: number;
  samples: Sample[];
  /** Samples of a single client. */
  singleClientSamples: Sample[];
  /** Rates of the same statements with as many clients as the samples; empty without pgbench. */
  statementRates: StatementRate[];
  recalls: Recall[];
  /** Recall after changes to many listings. */
  churned: ChurnResult[];
  equality: Equality;
};

/** Returns the results as Markdown. */
export function formatReport(results: {
  options: Options;
  findings: readonly Findings[];
  goals: readonly Goal[];
  clients: number;
}): string {
  const { options, findings, goals, clients } = results;
  const { rounds, seconds, isSmokeRun } = options;
  return [
    `Rounds: ${rounds}, of ${seconds} s for each kind of search, by ${clients} concurrent clients. Medians, with ` +
      'the minimum and maximum.' +
      (isSmokeRun ? ' This was a smoke run, which is too short to measure speed.' : ''),
    '## Time',
    formatTimeTable(findings),
    '### A single client',
    formatTimeTable(
      findings.map(({ listings, singleClientSamples }) => ({
        listings,
        samples: singleClientSamples,
      })),
    ),
    '### The same statements with pgbench',
    formatStatementTable(findings),
    ...KINDS.flatMap((kind) => [
      `### ${kind}, p50 and p95 in ms`,
      formatGroupTable(findings, kind),
    ]),
    '## Recall',
    formatRecallTable(findings),
    '### After changes',
    formatChurnTable(findings),
    '## Ranking',
    ...findings.map(formatRanking),
    ...(goals.length > 0 ? ['## Goals', formatGoals(goals)] : []),
  ].join('\n\n');
}

function formatTimeTable(findings: readonly Pick<Findings, 'listings' | 'samples'>[]): string {
  const head = ['', 'listings', 'p50 ms', 'p95 ms', 'searches/s', 'CPU ms/search'];
  const rows = KINDS.flatMap((kind) =>
    findings.map(({ listings, samples }) => {
      const kindSamples = samples.filter((sample) => sample.kind === kind);
      return [
        kind,
        formatNumber(listings),
        formatRange(summarize(kindSamples.map(({ all }) => all.p50)), 1),
        formatRange(summarize(kindSamples.map(({ all }) => all.p95)), 1),
        formatNumber(median(kindSamples.map(({ searches, seconds }) => searches / seconds))),
        formatNumber(median(kindSamples.map(({ cpuMs, searches }) => cpuMs / searches)), 1),
      ];
    }),
  );
  return formatTable(head, rows);
}

function formatStatementTable(findings: readonly Findings[]): string {
  const rows = RANKED_KINDS.flatMap((kind) =>
    findings.map((finding) => {
      const { searchRates, statementRates } = pairRates(finding, kind);
      const share = formatRange(ratio(searchRates, statementRates), 2);
      return [
        kind,
        formatNumber(finding.listings),
        ...[searchRates, statementRates].map((rates) => formatNumber(median(rates))),
        share,
      ];
    }),
  );
  return formatTable(['', 'listings', 'searches/s', 'pgbench, searches/s', 'ratio'], rows);
}

/** Returns the rates of searches, and those of their statements with pgbench, of each round. */
export function pairRates({ samples, statementRates }: Findings, kind: RankedKind) {
  const isOfKind = (measurement: { kind: Kind }) => measurement.kind === kind;
  return {
    searchRates: samples.filter(isOfKind).map(({ searches, seconds }) => searches / seconds),
    statementRates: statementRates.filter(isOfKind).map(({ rate }) => rate),
  };
}

function formatGroupTable(findings: readonly Findings[], kind: Kind): string {
  const samples = findings.map(({ samples: sizeSamples }) =>
    sizeSamples.filter((sample) => sample.kind === kind),
  );
  const groups = new Set(samples.flat().flatMap((sample) => Object.keys(sample.groups)));
  const rows = [...groups].map((group) => [
    group,
    ...samples.map(
      (kindSamples) =>
        `${formatMedian(kindSamples, group, 'p50')} / ${formatMedian(kindSamples, group, 'p95')}`,
    ),
  ]);
  return formatTable(
    ['', ...findings.map(({ listings }) => `${formatNumber(listings)} listings`)],
    rows,
  );
}

function formatMedian(samples: readonly Sample[], group: string, share: 'p50' | 'p95'): string {
  const values = samples.flatMap(({ groups }) => groups[group]?.[share] ?? []);
  return values.length === 0 ? '—' : formatNumber(median(values), 1);
}

function formatRecallTable(findings: readonly Findings[]): string {
  return formatTable(
    ['filter', 'listings', 'pass %', 'searches', 'recall@10'],
    findings.flatMap(({ listings, recalls }) =>
      recalls.map(({ filter, share, questions, recall }) => [
        filter,
        formatNumber(listings),
        formatNumber(100 * share, 1),
        formatNumber(questions),
        formatNumber(recall, 3),
      ]),
    ),
  );
}

function formatChurnTable(findings: readonly Findings[]): string {
  return formatTable(
    [
      'listings',
      '',
      'dead rows',
      'index MiB',
      ...(findings[0]?.recalls ?? []).map(({ filter }) => filter),
    ],
    findings.flatMap(({ listings, churned }) =>
      churned.map(({ state, deadRows, indexBytes, recalls }) => [
        formatNumber(listings),
        state,
        formatNumber(deadRows),
        formatNumber(indexBytes / 2 ** 20),
        ...recalls.map(({ recall }) => formatNumber(recall, 3)),
      ]),
    ),
  );
}

function formatRanking({ listings, equality }: Findings): string {
  const { whole, inBlocks, failures } = equality;
  return (
    `${formatNumber(listings)} listings: ${whole} full-text searches were ` +
    `compared with the ranking of all matches, and ${inBlocks} searches with the exact ranks of the hits of their first block. ` +
    `${failures.length} results differed.`
  );
}
