import { type Goal, formatGoals, figure, spread, table } from '../report.ts';
import type { Options } from '../options.ts';
import { median, summarize } from '../statistics.ts';
import { type Arrival, ARRIVALS, type VariantName, VARIANTS } from './variants.ts';
import type { Answers } from './clients.ts';

/** Concurrent answers in one round. */
export type Sample = Answers & {
  variant: VariantName;
  arrival: Arrival;
  round: number;
  seconds: number;
  /** Processor time of the server's process. */
  cpuMs: number;
};

/** Memory of each idle socket, in bytes. */
export type Idle = { variant: VariantName; sockets: number; rss: number; heap: number };

/** Load of one run. */
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

const MAX_LATENCY_MS = 20;
const MAX_SOCKET_BYTES = 50_000;

const MISSING = { rss: Number.NaN, heap: Number.NaN };

/** Returns the goals of answers and sockets. A smoke run judges only counts. */
export function judge({
  samples,
  idle,
  stored,
  said,
  smoke,
}: {
  samples: readonly Sample[];
  idle: readonly Idle[];
  stored: number;
  said: number;
  smoke: boolean;
}): Goal[] {
  const own = samples.filter(({ variant }) => variant === 'assistant');
  const failures = own.flatMap((sample) => sample.failures);
  const countGoal: Goal = {
    goal: 'no message and no token is lost or doubled',
    measured: `${figure(stored)} of ${figure(said)} messages stored, ${failures.length} wrong events`,
    met: stored === said && failures.length === 0,
  };
  if (smoke) return [countGoal];
  const coming = own.filter(({ arrival }) => arrival === 'within a second');
  const p99 = summarize(coming.map((sample) => sample.p99));
  const latencyGoal: Goal = {
    goal: `added latency of a token, asked within a second: p99 at most ${MAX_LATENCY_MS} ms`,
    measured: `${spread(p99, 1)} ms`,
    met: p99.median <= MAX_LATENCY_MS,
  };
  const { rss, heap } = idle.find(({ variant }) => variant === 'assistant') ?? MISSING;
  // A heap can grow into free pages without increasing the memory of the process.
  const bytes = Math.max(rss, heap);
  const memoryGoal: Goal = {
    goal: `memory of an idle socket: at most ${figure(MAX_SOCKET_BYTES / 1000)} kB`,
    measured: `${figure(bytes / 1000, 1)} kB`,
    met: bytes <= MAX_SOCKET_BYTES,
  };
  return [latencyGoal, memoryGoal, countGoal];
}
