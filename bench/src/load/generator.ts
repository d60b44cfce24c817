import { performance } from 'node:perf_hooks';
import autocannon from 'autocannon';
import { serveMethods } from '../process/child.ts';
import { percentiles } from '../statistics.ts';
import type { Target } from './variant.ts';

/** Load for a server. */
export type Load = {
  url: string;
  /** At least one for each connection; they are dealt out among the connections. */
  targets: readonly Target[];
  /** Text that every answer must contain. */
  expected: string;
  connections: number;
  seconds: number;
};

/** Results. Latencies are in milliseconds. */
export type Outcome = {
  requests: number;
  seconds: number;
  latency: { p50: number; p90: number; p99: number; max: number };
  /** Answers by status. */
  statuses: Record<string, number>;
  /** Connections that broke, and requests that were not answered within 10 s. */
  errors: number;
  /** Answers without what they have to contain. */
  wrongBodies: number;
};

/** Interval at which autocannon checks the time. */
const SAMPLE_MS = 50;

const methods = { run };
export type Generator = typeof methods;
serveMethods(methods);

async function run({ url, targets, expected, connections, seconds }: Load): Promise<Outcome> {
  // The histogram of autocannon has a resolution of one millisecond, which is too coarse.
  const latencies: number[] = [];
  let connected = 0;
  const { promise: finished, resolve, reject } = Promise.withResolvers<autocannon.Result>();
  const instance = autocannon(
    {
      url,
      connections,
      duration: seconds,
      sampleInt: SAMPLE_MS,
      // Each connection has different requests, because a server may share work within a session.
      setupClient(client) {
        const nth = connected++;
        client.setRequests(
          targets
            .filter((_target, index) => index % connections === nth)
            .map(({ path, headers }) => ({ method: 'GET', path, headers })),
        );
      },
      verifyBody: (body) => String(body).includes(expected),
    },
    (error: Error | null, result) => (error === null ? resolve(result) : reject(error)),
  );
  const started = performance.now();
  instance.on('response', (_client, _status, _bytes, latencyMs) => latencies.push(latencyMs));
  const { statusCodeStats = {}, errors, mismatches } = await finished;
  const elapsedMs = performance.now() - started;
  if (latencies.length === 0) throw new Error(`${url} answered nothing in ${seconds} s`);
  const [p50 = 0, p90 = 0, p99 = 0, max = 0] = percentiles(latencies, [0.5, 0.9, 0.99, 1]);
  return {
    requests: latencies.length,
    seconds: elapsedMs / 1000,
    latency: { p50, p90, p99, max },
    statuses: Object.fromEntries(
      Object.entries(statusCodeStats).map(([status, { count = 0 }]) => [status, count]),
    ),
    errors,
    wrongBodies: mismatches,
  };
}
