import { type Goal, formatGoals, figure, spread, table } from '../report.ts';
import type { Options } from '../options.ts';
import { median, summarize } from '../statistics.ts';
import { KINDS, type Kind } from './questions.ts';
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

/** Results for databases of one size. */
export type Findings = {
  listings: number;
  samples: Sample[];
  /** Samples of a single client. */
  singleClientSamples: Sample[];
  recalls: Recall[];
  /** Recall after changes of many listings. */
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
  const { rounds, seconds, smoke } = options;
  return [
    `Rounds: ${rounds}, of ${seconds} s for each kind of search, by ${clients} concurrent clients. Medians, with ` +
      'the minimum and maximum.' +
      (smoke ? ' This was a smoke run, which is too short to measure speed.' : ''),
    '## Time',
    timeTable(findings),
    '### A single client',
    timeTable(
      findings.map(({ listings, singleClientSamples }) => ({
        listings,
        samples: singleClientSamples,
      })),
    ),
    ...KINDS.flatMap((kind) => [`### ${kind}, p50 and p95 in ms`, groupTable(findings, kind)]),
    '## Recall',
    recallTable(findings),
    '### After changes',
    churnTable(findings),
    '## Ranking',
    ...findings.map(rankingText),
    ...(goals.length > 0 ? ['## Goals', formatGoals(goals)] : []),
  ].join('\n\n');
}

function timeTable(findings: readonly Pick<Findings, 'listings' | 'samples'>[]): string {
  const head = ['', 'listings', 'p50 ms', 'p95 ms', 'searches/s', 'CPU ms/search'];
  const rows = KINDS.flatMap((kind) =>
    findings.map(({ listings, samples }) => {
      const kindSamples = samples.filter((sample) => sample.kind === kind);
      return [
        kind,
        figure(listings),
        spread(summarize(kindSamples.map(({ all }) => all.p50)), 1),
        spread(summarize(kindSamples.map(({ all }) => all.p95)), 1),
        figure(median(kindSamples.map(({ searches, seconds }) => searches / seconds))),
        figure(median(kindSamples.map(({ cpuMs, searches }) => cpuMs / searches)), 1),
      ];
    }),
  );
  return table(head, rows);
}

function groupTable(findings: readonly Findings[], kind: Kind): string {
  const samples = findings.map(({ samples: sizeSamples }) =>
    sizeSamples.filter((sample) => sample.kind === kind),
  );
  const groups = new Set(samples.flat().flatMap((sample) => Object.keys(sample.groups)));
  const rows = [...groups].map((group) => [
    group,
    ...samples.map(
      (kindSamples) =>
        `${medianOf(kindSamples, group, 'p50')} / ${medianOf(kindSamples, group, 'p95')}`,
    ),
  ]);
  return table(['', ...findings.map(({ listings }) => `${figure(listings)} listings`)], rows);
}

function medianOf(samples: readonly Sample[], group: string, share: 'p50' | 'p95'): string {
  const values = samples.flatMap(({ groups }) => groups[group]?.[share] ?? []);
  return values.length === 0 ? '—' : figure(median(values), 1);
}

function recallTable(findings: readonly Findings[]): string {
  return table(
    ['filter', 'listings', 'pass %', 'searches', 'recall@10'],
    findings.flatMap(({ listings, recalls }) =>
      recalls.map(({ filter, share, questions, recall }) => [
        filter,
        figure(listings),
        figure(100 * share, 1),
        figure(questions),
        figure(recall, 3),
      ]),
    ),
  );
}

function churnTable(findings: readonly Findings[]): string {
  return table(
    [
      'listings',
      '',
      'dead rows',
      'index MB',
      ...(findings[0]?.recalls ?? []).map(({ filter }) => filter),
    ],
    findings.flatMap(({ listings, churned }) =>
      churned.map(({ state, deadRows, indexBytes, recalls }) => [
        figure(listings),
        state,
        figure(deadRows),
        figure(indexBytes / 2 ** 20),
        ...recalls.map(({ recall }) => figure(recall, 3)),
      ]),
    ),
  );
}

function rankingText({ listings, equality }: Findings): string {
  const { belowBound, atBound, failures } = equality;
  return (
    `${figure(listings)} listings: ${belowBound} full-text searches with fewer matches than the bound were ` +
    `compared with the ranking of all matches, and ${atBound} searches with the ranking of the newest matches. ` +
    `${failures.length} results differed.`
  );
}
