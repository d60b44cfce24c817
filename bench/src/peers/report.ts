import type { Options } from '../options.ts';
import { formatNumber, formatRange, formatTable } from '../report.ts';
import { median, percentiles, ratio, summarize } from '../statistics.ts';
import type { ProcessMemory } from './engine.ts';
import { OSELYA } from './engines.ts';
import { type Kind, KINDS } from './query.ts';
import type { EngineRelevance } from './relevance.ts';

/** One measurement of a kind of search, with latencies in milliseconds. */
export type Sample = {
  engine: string;
  kind: Kind;
  clients: number;
  round: number;
  searches: number;
  p50: number;
  p95: number;
  /** Searches per second. */
  rate: number;
};

export type Resources = {
  engine: string;
  version: string;
  /** Duration of loading and indexing; null if this run did not load the listings. */
  loadSeconds: number | null;
  memory?: ProcessMemory;
  diskBytes?: number;
  /** Share of the ten nearest listings among the ten found; null without vectors. */
  recall?: number | null;
  /** Times from the sending of a new listing until a search finds it. */
  insertMs?: number[];
};

export type Findings = {
  listings: number;
  samples: Sample[];
  resources: Resources[];
  relevance: EngineRelevance[];
};

const MISSING = '—';
const MEBIBYTE = 2 ** 20;

const TITLES: Record<Kind, string> = {
  words: 'By words',
  filtered: 'By words, with filters by city, deal, price and rooms',
  'by price': 'Without words, cheapest first, with the same filters',
  vector: 'By vector',
  facets: 'Facets',
};

/** Returns the results as Markdown. */
export function formatReport(findings: Findings, options: Options): string {
  const { rounds, seconds, isSmokeRun } = options;
  const smoke = isSmokeRun ? ' This was a smoke run, which is too short to measure speed.' : '';
  return [
    `${formatNumber(findings.listings)} listings. Rounds: ${rounds}, of ${seconds} s for each kind of search. Medians of ` +
      `the rounds; ratios are Oselya ÷ peer, with the minimum and maximum.${smoke}`,
    '## Relevance',
    formatRelevance(findings),
    ...KINDS.flatMap((kind) => [`## ${TITLES[kind]}`, formatKind(findings, kind)]),
    '## Resources',
    formatResources(findings),
  ].join('\n\n');
}

function formatRelevance({ relevance }: Findings): string {
  return formatTable(
    ['', 'queries', 'first right', 'nDCG@10', 'recall@10'],
    relevance.map(({ engine, terms, queries, top1, ndcg, recall }) => [
      `${engine}, ${terms}`,
      String(queries),
      ...[top1, ndcg, recall].map((value) => formatNumber(value, 3)),
    ]),
  );
}

function formatKind({ samples, resources }: Findings, kind: Kind): string {
  const select = (engine: string, clients: number) =>
    samples
      .filter(
        (sample) => sample.kind === kind && sample.engine === engine && sample.clients === clients,
      )
      .toSorted((a, b) => a.round - b.round);
  const getValues = (engine: string, clients: number, name: 'p50' | 'p95' | 'rate') =>
    select(engine, clients).map((sample) => sample[name]);
  const columns = [
    { title: 'p50 ms', clients: 1, name: 'p50' },
    { title: 'p95 ms', clients: 1, name: 'p95' },
    { title: 'searches/s', clients: 1, name: 'rate' },
    { title: '8 clients: p50 ms', clients: 8, name: 'p50' },
    { title: 'p95 ms', clients: 8, name: 'p95' },
    { title: 'searches/s', clients: 8, name: 'rate' },
  ] as const;
  const rows = resources
    .filter(({ engine }) => select(engine, 1).length > 0)
    .map(({ engine }) => {
      const formatRatio = (clients: number, name: 'p50' | 'p95' | 'rate') =>
        engine === OSELYA
          ? MISSING
          : formatRange(
              ratio(getValues(OSELYA, clients, name), getValues(engine, clients, name)),
              2,
            );
      return [
        engine,
        ...columns.map(({ clients, name }) =>
          formatNumber(median(getValues(engine, clients, name)), name === 'rate' ? 0 : 1),
        ),
        formatRatio(1, 'p50'),
        formatRatio(1, 'p95'),
        formatRatio(8, 'rate'),
      ];
    });
  const ratioTitles = ['ratio of p50', 'ratio of p95', 'ratio of searches/s, 8 clients'];
  return formatTable(['', ...columns.map(({ title }) => title), ...ratioTitles], rows);
}

const formatOptional = (value: number | null | undefined, decimals = 0) =>
  value == null ? MISSING : formatNumber(value, decimals);
const formatRatio = (value: number | undefined, peerValue: number | undefined) =>
  value === undefined || peerValue === undefined || value === peerValue
    ? MISSING
    : formatNumber(value / peerValue, 2);

function formatResources({ resources }: Findings): string {
  const own = resources.find(({ engine }) => engine === OSELYA);
  return formatTable(
    [
      '',
      'version',
      'memory MiB',
      'mapped files MiB',
      'disk MiB',
      'load s',
      'recall@10',
      'new listing found: p50 ms',
      'p95 ms',
      'ratio of memory',
      'ratio of disk',
      'ratio of p50 to find',
    ],
    resources.map((row) => {
      const { memory, diskBytes, insertMs = [] } = row;
      const [p95] = percentiles(insertMs, [0.95]);
      return [
        row.engine,
        row.version,
        formatOptional(memory && memory.own / MEBIBYTE),
        formatOptional(memory && memory.mapped / MEBIBYTE),
        formatOptional(diskBytes && diskBytes / MEBIBYTE),
        formatOptional(row.loadSeconds),
        formatOptional(row.recall, 3),
        formatOptional(summarize(insertMs).median, 1),
        formatOptional(p95, 1),
        formatRatio(own?.memory?.own, memory?.own),
        formatRatio(own?.diskBytes, diskBytes),
        formatRatio(own?.insertMs && median(own.insertMs), median(insertMs)),
      ];
    }),
  );
}
