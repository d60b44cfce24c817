import { type Goal, formatGoals } from '../goal.ts';
import { figure, spread, table } from '../markdown.ts';
import type { Options } from '../options.ts';
import { median, summarize } from '../statistics.ts';
import { type Arrival, ARRIVALS } from './arrivals.ts';
import type { Answers } from './clients.ts';
import { type VariantName, VARIANTS } from './variants.ts';

/** Cost of concurrent answers in one round. */
export type Sample = Answers & {
  variant: VariantName;
  arrival: Arrival;
  round: number;
  seconds: number;
  /** Of the server's process. */
  cpuMs: number;
};

/** Memory of open sockets, in bytes for each. */
export type Idle = { variant: VariantName; sockets: number; rss: number; heap: number };

/** Description of one run, for readers. */
export type Setup = { sockets: number; streams: number; tokensPerSecond: number };

/** Returns the results as Markdown. */
export function formatReport(found: {
  setup: Setup;
  options: Options;
  samples: readonly Sample[];
  idle: readonly Idle[];
  goals: readonly Goal[];
  stored: number;
  said: number;
}): string {
  const { setup, options, samples, idle, goals, stored, said } = found;
  return [
    `${figure(setup.sockets)} open sockets on one process; over ${setup.streams} of them answers of ` +
      `${setup.tokensPerSecond} tokens a second at the same time. Rounds: ${options.rounds}, of ${options.seconds} s. ` +
      'Medians, with the least and the most.' +
      (options.smoke ? ' This was a smoke run: too short to say anything about speed.' : ''),
    '## From the model to the client, token by token',
    latencyTable(samples),
    '## An idle socket',
    idleTable(idle),
    `${figure(stored)} of ${figure(said)} messages that were said are stored.`,
    '## Goals',
    formatGoals(goals),
  ].join('\n\n');
}

function latencyTable(samples: readonly Sample[]): string {
  const kinds = ARRIVALS.flatMap((arrival) => VARIANTS.map((variant) => ({ variant, arrival })));
  const rows = kinds.map(({ variant, arrival }) => {
    const own = samples.filter((one) => one.variant === variant && one.arrival === arrival);
    const of = (name: 'p50' | 'p99' | 'max') => spread(summarize(own.map((one) => one[name])), 1);
    const perToken = median(own.map(({ cpuMs, tokens }) => (1000 * cpuMs) / tokens));
    const perSecond = median(own.map((one) => one.perSecond));
    return [
      variant,
      arrival,
      figure(perSecond, 1),
      of('p50'),
      of('p99'),
      of('max'),
      figure(perToken),
    ];
  });
  return table(['', 'asked', 'tokens/s each', 'p50 ms', 'p99 ms', 'most ms', 'CPU µs/token'], rows);
}

function idleTable(idle: readonly Idle[]): string {
  return table(
    ['', 'sockets', 'process kB each', 'heap kB each'],
    idle.map(({ variant, sockets, rss, heap }) => [
      variant,
      figure(sockets),
      figure(rss / 1000, 1),
      figure(heap / 1000, 1),
    ]),
  );
}
