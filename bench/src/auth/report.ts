import type { Cost } from '../load/cost.ts';
import { rates, type Sample } from '../load/rounds.ts';
import { figure, spread, table } from '../markdown.ts';
import type { Options } from '../options.ts';
import { ratio, summarize } from '../statistics.ts';
import { constant } from './constant.ts';
import type { Expiries } from './expiries.ts';
import type { Goal } from './goals.ts';
import { betterAuthPlain } from './variants.ts';

type Findings = {
  options: Options;
  samples: ReadonlyMap<string, readonly Sample[]>;
  costs: readonly Cost[];
  expiries: readonly Expiries[];
  goals: readonly Goal[];
};

/** Returns all results as Markdown. */
export function formatReport({ options, samples, costs, expiries, goals }: Findings): string {
  const { rounds, seconds, connections, smoke } = options;
  return [
    '## Speed',
    `Rounds: ${rounds}, of ${seconds} s for each variant, over ${connections} connections. Medians, with the ` +
      'least and the most where they matter; ratios are of requests/s within a round.' +
      (smoke ? ' This was a smoke run: too short to say anything about speed.' : ''),
    formatSpeeds(samples),
    '## Cost of a request for which nothing changed',
    formatCosts(costs),
    '## Tokens that expire while many ask',
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
  const against = (name: string, peer: string) =>
    figure(ratio(rates(samples, name), rates(samples, peer)).median, 2);
  const rows = [...samples].map(([name, own]) => [
    name,
    spread(summarize(rates(samples, name))),
    against(name, betterAuthPlain.name),
    against(name, constant.name),
    figure(summarize(own.map(({ latency }) => latency.p50)).median, 1),
    spread(summarize(own.map(({ latency }) => latency.p99)), 1),
    figure(summarize(own.map(({ cpuMs, requests }) => (1000 * cpuMs) / requests)).median),
  ]);
  return table(head, rows);
}

function formatCosts(costs: readonly Cost[]): string {
  const head = ['', 'database statements', 'calls to the provider'];
  const rows = costs.map(({ variant, statements, calls }) => [
    variant,
    figure(statements),
    figure(calls, 2),
  ]);
  return table(head, rows);
}

function formatExpiries(expiries: readonly Expiries[]): string {
  const head = ['', 'processes', 'requests at once', 'expiries', 'redemptions each', 'refused'];
  const rows = expiries.map(({ providerMs, processes, requests, redemptions, refused }) => [
    `provider ${providerMs} ms`,
    figure(processes),
    figure(requests),
    figure(redemptions.length),
    [...new Set(redemptions)].join(', '),
    figure(refused),
  ]);
  return table(head, rows);
}

function formatGoals(goals: Findings['goals']): string {
  const head = ['', 'measured', ''];
  return table(
    head,
    goals.map(({ goal, measured, met }) => [goal, measured, met ? 'met' : 'not met']),
  );
}
