import type { Cost } from '../load/cost.ts';
import { listRates, type Sample } from '../load/rounds.ts';
import {
  type Goal,
  formatNumber,
  formatGoals,
  evaluateRatio,
  formatRange,
  formatTable,
} from '../report.ts';
import type { Options } from '../options.ts';
import { ratio, summarize } from '../statistics.ts';
import { constant } from './peers.ts';
import type { Expiries } from './expiries.ts';
import {
  betterAuthPlain,
  cachedAssistants,
  betterAuthJoins,
  uncachedAssistants,
} from './variants.ts';
import type { Variant } from '../load/variant.ts';

type Findings = {
  options: Options;
  samples: ReadonlyMap<string, readonly Sample[]>;
  costs: readonly Cost[];
  expiries: readonly Expiries[];
  goals: readonly Goal[];
};

/** Returns all results as Markdown. */
export function formatReport({ options, samples, costs, expiries, goals }: Findings): string {
  const { rounds, seconds, connections, isSmokeRun } = options;
  return [
    '## Speed',
    `Rounds: ${rounds}, of ${seconds} s for each variant, over ${connections} connections. Medians, with the ` +
      'minimum and maximum where they matter; ratios compare requests/s within a round.' +
      (isSmokeRun ? ' This was a smoke run, which is too short to measure speed.' : ''),
    formatSpeeds(samples),
    '## Cost of a request when nothing changed',
    formatCosts(costs),
    '## Token expiry under concurrent requests',
    formatExpiries(expiries),
    '## Goals',
    formatGoals(goals),
  ].join('\n\n');
}

function formatSpeeds(samples: Findings['samples']): string {
  const head = [
    '',
    'requests/s',
    '÷ better-auth',
    '÷ constant',
    'p50 ms',
    'p99 ms',
    'CPU µs/request',
  ];
  const formatMedianRatio = (name: string, peer: string) =>
    formatNumber(ratio(listRates(samples, name), listRates(samples, peer)).median, 2);
  const rows = [...samples].map(([name, variantSamples]) => [
    name,
    formatRange(summarize(listRates(samples, name))),
    formatMedianRatio(name, betterAuthPlain.name),
    formatMedianRatio(name, constant.name),
    formatNumber(summarize(variantSamples.map(({ latency }) => latency.p50)).median, 1),
    formatRange(summarize(variantSamples.map(({ latency }) => latency.p99)), 1),
    formatNumber(
      summarize(variantSamples.map(({ cpuMs, requests }) => (1000 * cpuMs) / requests)).median,
    ),
  ]);
  return formatTable(head, rows);
}

function formatCosts(costs: readonly Cost[]): string {
  const head = ['', 'database statements', 'calls to the provider'];
  const rows = costs.map(({ variant, statements, calls }) => [
    variant,
    formatNumber(statements),
    formatNumber(calls, 2),
  ]);
  return formatTable(head, rows);
}

function formatExpiries(expiries: readonly Expiries[]): string {
  const head = [
    '',
    'processes',
    'concurrent requests',
    'expiries',
    'redemptions per expiry',
    'failed',
  ];
  const rows = expiries.map(({ providerMs, processes, requests, redemptions, failedCount }) => [
    `provider ${providerMs} ms`,
    formatNumber(processes),
    formatNumber(requests),
    formatNumber(redemptions.length),
    [...new Set(redemptions)].join(', '),
    formatNumber(failedCount),
  ]);
  return formatTable(head, rows);
}

/** Minimum ratios of the assistant's request rate, with user data cached for up to 30 s, to each peer's. */
const MIN_RATIOS: readonly { peer: Variant; atLeast: number }[] = [
  { peer: betterAuthPlain, atLeast: 2 },
  { peer: betterAuthJoins, atLeast: 2 },
  { peer: constant, atLeast: 0.5 },
];

const MAX_STATEMENTS = 2;

/** Evaluates the speed goals, which depend on the machine. */
export function evaluateSpeed(samples: ReadonlyMap<string, readonly Sample[]>): Goal[] {
  const getSeries = (name: string) => [name, listRates(samples, name)] as const;
  return MIN_RATIOS.flatMap(({ peer, atLeast }) =>
    cachedAssistants.map(({ name }) =>
      evaluateRatio(getSeries(name), getSeries(peer.name), atLeast),
    ),
  );
}

/** Evaluates the count goals, which do not depend on the machine. */
export function evaluateCounts(costs: readonly Cost[], expiries: readonly Expiries[]): Goal[] {
  const assistants = new Set([...uncachedAssistants, ...cachedAssistants].map(({ name }) => name));
  const maxStatements = Math.max(
    ...costs.filter(({ variant }) => assistants.has(variant)).map(({ statements }) => statements),
  );
  return [
    {
      goal: `assistant: at most ${MAX_STATEMENTS} statements when nothing changed`,
      measured: formatNumber(maxStatements),
      isMet: maxStatements <= MAX_STATEMENTS,
    },
    ...expiries.flatMap(({ providerMs, redemptions, failedCount }) => [
      {
        goal: `expired tokens, provider ${providerMs} ms: redeemed once`,
        measured: [...new Set(redemptions)].join(', '),
        isMet: redemptions.every((count) => count === 1),
      },
      {
        goal: `expired tokens, provider ${providerMs} ms: no failed request`,
        measured: formatNumber(failedCount),
        isMet: failedCount === 0,
      },
    ]),
  ];
}
