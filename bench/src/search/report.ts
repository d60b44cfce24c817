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
  alone: Sample[];
  recalls: Recall[];
  /** Recall after changes of many listings. */
  churned: ChurnResult[];
  equality: Equality;
};

/** Returns the results as Markdown. */
export function formatReport(found: {
  options: Options;
  findings: readonly Findings[];
  goals: readonly Goal[];
  clients: number;
}): string {
  const { options, findings, goals, clients } = found;
  const { rounds, seconds, smoke } = options;
  return [
    `Rounds: ${rounds}, of ${seconds} s for each kind of search, by ${clients} clients at once. Medians, with ` +
      'the least and the most.' +
      (smoke ? ' This was a smoke run: too short to say anything about speed.' : ''),
    '## Time',
    timeTable(findings),
    '### A single client',
    timeTable(findings.map(({ listings, alone }) => ({ listings, samples: alone }))),
    ...KINDS.flatMap((kind) => [`### ${kind}, p50 and p95 in ms`, groupTable(findings, kind)]),
    '## Recall',
    recallTable(findings),
    '### Once many have changed',
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
      const own = samples.filter((sample) => sample.kind === kind);
      return [
        kind,
        figure(listings),
        spread(summarize(own.map(({ all }) => all.p50)), 1),
        spread(summarize(own.map(({ all }) => all.p95)), 1),
        figure(median(own.map(({ searches, seconds }) => searches / seconds))),
        figure(median(own.map(({ cpuMs, searches }) => cpuMs / searches)), 1),
      ];
    }),
  );
  return table(head, rows);
}

function groupTable(findings: readonly Findings[], kind: Kind): string {
  const samples = findings.map((one) => one.samples.filter((sample) => sample.kind === kind));
  const groups = new Set(samples.flat().flatMap((sample) => Object.keys(sample.groups)));
  const rows = [...groups].map((group) => [
    group,
    ...samples.map((own) => `${medianOf(own, group, 'p50')} / ${medianOf(own, group, 'p95')}`),
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
    `${figure(listings)} listings: of ${belowBound + atBound} full-text searches ${belowBound} did not reach the ` +
    `bound and were compared with the ranking of all matches, ${atBound} with that of the newest. ` +
    `${failures.length} differed.`
  );
}
