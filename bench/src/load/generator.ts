import { performance } from 'node:perf_hooks';
import autocannon from 'autocannon';
import { serveMethods } from '../process/child.ts';
import { percentiles } from '../statistics.ts';
import type { Target } from './variant.ts';

export type Load = {
  url: string;
  /** Requests, at least one for each connection, distributed over the connections. */
  targets: readonly Target[];
  /** Text that every response must contain. */
  expected: string;
  connections: number;
  seconds: number;
};

/** Results of a run, with latencies in milliseconds. */
export type Outcome = {
  requests: number;
  seconds: number;
  latency: { p50: number; p90: number; p99: number; max: number };
  /** Number of responses by status. */
  statuses: Record<string, number>;
  /** Number of broken connections, and of requests without a response within 10 s. */
  errors: number;
  /** Number of responses without the expected text. */
  wrongBodies: number;
};

/** Interval at which autocannon checks whether the time has elapsed. */
const SAMPLE_MS = 50;

const methods = { run };
export type Generator = typeof methods;
serveMethods(methods);

async function run({ url, targets, expected, connections, seconds }: Load): Promise<Outcome> {
  // autocannon's histogram has a resolution of one millisecond, which is too coarse.
  const latencies: number[] = [];
  let clients = 0;
  const { promise: finished, resolve, reject } = Promise.withResolvers<autocannon.Result>();
  const instance = autocannon(
    {
      url,
      connections,
      duration: seconds,
      sampleInt: SAMPLE_MS,
      // Connections send different requests, because a server may share work within a session.
      setupClient(client) {
        const clientIndex = clients++;
        client.setRequests(
          targets
            .filter((_target, index) => index % connections === clientIndex)
            .map(({ path, headers }) => ({ method: 'GET', path, headers })),
        );
      },
      verifyBody: (body) => String(body).includes(expected),
    },
    (error: Error | null, result) => (error === null ? resolve(result) : reject(error)),
  );
  const startedAt = performance.now();
  instance.on('response', (_client, _status, _bytes, latencyMs) => latencies.push(latencyMs));
  const { statusCodeStats = {}, errors, mismatches } = await finished;
  const elapsedMs = performance.now() - startedAt;
  if (latencies.length === 0) throw new Error(`${url} sent no response in ${seconds} s`);
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
