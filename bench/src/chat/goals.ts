import type { Goal } from '../goal.ts';
import { figure, spread } from '../markdown.ts';
import { summarize } from '../statistics.ts';
import type { Idle, Sample } from './report.ts';

const MAX_LATENCY_MS = 20;
/** 50 kB, in units of 1,000 bytes. */
const MAX_SOCKET_BYTES = 50_000;

const NOTHING = { rss: Number.NaN, heap: Number.NaN };

/** Goals of answers and sockets. A smoke run does not judge times and sizes. */
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
  const counted: Goal = {
    goal: 'no message and no token is lost or doubled',
    measured: `${figure(stored)} of ${figure(said)} messages stored, ${failures.length} wrong events`,
    met: stored === said && failures.length === 0,
  };
  if (smoke) return [counted];
  const coming = own.filter(({ arrival }) => arrival === 'within a second');
  const p99 = summarize(coming.map((sample) => sample.p99));
  const late: Goal = {
    goal: `added latency of a token, asked within a second: p99 at most ${MAX_LATENCY_MS} ms`,
    measured: `${spread(p99, 1)} ms`,
    met: p99.median <= MAX_LATENCY_MS,
  };
  const { rss, heap } = idle.find(({ variant }) => variant === 'assistant') ?? NOTHING;
  // A process with free pages can grow its heap without growing its memory.
  const bytes = Math.max(rss, heap);
  const held: Goal = {
    goal: `memory of an idle socket: at most ${figure(MAX_SOCKET_BYTES / 1000)} kB`,
    measured: `${figure(bytes / 1000, 1)} kB`,
    met: bytes <= MAX_SOCKET_BYTES,
  };
  return [late, held, counted];
}
