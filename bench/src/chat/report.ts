import { type Goal, formatGoals, formatNumber, formatRange, formatTable } from '../report.ts';
import type { Options } from '../options.ts';
import { median, summarize } from '../statistics.ts';
import { type Arrival, ARRIVALS, type VariantName, VARIANTS } from './variants.ts';
import type { Answers } from './clients.ts';

/** Measurement of concurrent answers in one round. */
export type Sample = Answers & {
  variant: VariantName;
  arrival: Arrival;
  round: number;
  seconds: number;
  /** Processor time of the server's process. */
  cpuMs: number;
};

/** Memory per idle socket, in bytes. */
export type Idle = { variant: VariantName; sockets: number; rss: number; heap: number };

/** Load of one run. */
export type Setup = { sockets: number; streams: number; tokensPerSecond: number };

/** Returns the results as Markdown. */
export function formatReport(findings: {
  setup: Setup;
  options: Options;
  samples: readonly Sample[];
  idle: readonly Idle[];
  goals: readonly Goal[];
  storedCount: number;
  expectedCount: number;
}): string {
  const { setup, options, samples, idle, goals, storedCount, expectedCount } = findings;
  return [
    `${formatNumber(setup.sockets)} open sockets on one process; ${setup.streams} of them receive concurrent answers of ` +
      `${setup.tokensPerSecond} tokens per second. Rounds: ${options.rounds}, of ${options.seconds} s. ` +
      'Medians, with the minimum and maximum.' +
      (options.isSmokeRun ? ' This was a smoke run, which is too short to measure speed.' : ''),
    '## Latency of tokens from the model to the client',
    formatLatencyTable(samples),
    '## Memory of an idle socket',
    formatIdleTable(idle),
    `Stored ${formatNumber(storedCount)} of ${formatNumber(expectedCount)} messages.`,
    '## Goals',
    formatGoals(goals),
  ].join('\n\n');
}

function formatLatencyTable(samples: readonly Sample[]): string {
  const kinds = ARRIVALS.flatMap((arrival) => VARIANTS.map((variant) => ({ variant, arrival })));
  const rows = kinds.map(({ variant, arrival }) => {
    const kindSamples = samples.filter(
      (sample) => sample.variant === variant && sample.arrival === arrival,
    );
    const formatPercentile = (name: 'p50' | 'p99' | 'max') =>
      formatRange(summarize(kindSamples.map((sample) => sample[name])), 1);
    const perToken = median(kindSamples.map(({ cpuMs, tokens }) => (1000 * cpuMs) / tokens));
    const tokensPerSecond = median(kindSamples.map((sample) => sample.tokensPerSecond));
    return [
      variant,
      arrival,
      formatNumber(tokensPerSecond, 1),
      formatPercentile('p50'),
      formatPercentile('p99'),
      formatPercentile('max'),
      formatNumber(perToken),
    ];
  });
  return formatTable(
    ['', 'messages', 'tokens/s per answer', 'p50 ms', 'p99 ms', 'max ms', 'CPU µs/token'],
    rows,
  );
}

function formatIdleTable(idle: readonly Idle[]): string {
  return formatTable(
    ['', 'sockets', 'process kB/socket', 'heap kB/socket'],
    idle.map(({ variant, sockets, rss, heap }) => [
      variant,
      formatNumber(sockets),
      formatNumber(rss / 1000, 1),
      formatNumber(heap / 1000, 1),
    ]),
  );
}

const MAX_LATENCY_MS = 20;
const MAX_SOCKET_BYTES = 50_000;

const MISSING = { rss: Number.NaN, heap: Number.NaN };

/** Evaluates the latency, memory and count goals. A smoke run evaluates only the count goal. */
export function evaluateGoals({
  samples,
  idle,
  storedCount,
  expectedCount,
  isSmokeRun,
}: {
  samples: readonly Sample[];
  idle: readonly Idle[];
  storedCount: number;
  expectedCount: number;
  isSmokeRun: boolean;
}): Goal[] {
  const assistantSamples = samples.filter(({ variant }) => variant === 'assistant');
  const failures = assistantSamples.flatMap((sample) => sample.failures);
  const countGoal: Goal = {
    goal: 'no message or token is lost or duplicated',
    measured: `${formatNumber(storedCount)} of ${formatNumber(expectedCount)} messages stored, ${failures.length} failures`,
    isMet: storedCount === expectedCount && failures.length === 0,
  };
  if (isSmokeRun) return [countGoal];
  const spreadSamples = assistantSamples.filter(({ arrival }) => arrival === 'within a second');
  const p99 = summarize(spreadSamples.map((sample) => sample.p99));
  const latencyGoal: Goal = {
    goal: `added latency of a token, messages within a second: p99 at most ${MAX_LATENCY_MS} ms`,
    measured: `${formatRange(p99, 1)} ms`,
    isMet: p99.median <= MAX_LATENCY_MS,
  };
  const { rss, heap } = idle.find(({ variant }) => variant === 'assistant') ?? MISSING;
  // The heap can grow into free pages without increasing the resident memory, so the larger growth counts.
  const bytes = Math.max(rss, heap);
  const memoryGoal: Goal = {
    goal: `memory of an idle socket: at most ${formatNumber(MAX_SOCKET_BYTES / 1000)} kB`,
    measured: `${formatNumber(bytes / 1000, 1)} kB`,
    isMet: bytes <= MAX_SOCKET_BYTES,
  };
  return [latencyGoal, memoryGoal, countGoal];
}
