import { hash } from 'node:crypto';
import type { FastifyInstance } from 'fastify';
import { collectDefaultMetrics, Histogram, type Registry } from 'prom-client';
import { commonProblem } from '../problems.ts';
import { isSameSecret } from './callers.ts';

const DURATION_BUCKETS_SECONDS = [0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];

/** Gauges that prom-client names like counters. Each is the sum of another gauge, so they are removed. */
const MISNAMED_GAUGES = ['handles', 'requests', 'resources'].map(
  (kind) => `nodejs_active_${kind}_total`,
);

/**
 * Records each request in `http_request_duration_seconds{method,route,status}`, adds the process metrics, and registers
 * `GET /metrics`. Contract 4, Metrics.
 * @param token Bearer token for `/metrics` (METRICS_TOKEN). If the token is empty, the metrics are public.
 */
export function registerHttpMetrics(
  app: FastifyInstance,
  registry: Registry,
  { token }: { token: string },
): void {
  collectDefaultMetrics({ register: registry });
  for (const name of MISNAMED_GAUGES) registry.removeSingleMetric(name);
  const durationHistogram = new Histogram({
    name: 'http_request_duration_seconds',
    help: 'Time from the request to the end of its response.',
    labelNames: ['method', 'route', 'status'],
    buckets: DURATION_BUCKETS_SECONDS,
    registers: [registry],
  });
  app.addHook('onResponse', (request, reply, done) => {
    // The number of paths is unbounded, so the label is the route pattern.
    const route = request.routeOptions.url ?? 'unknown';
    const labels = { method: request.method, route, status: String(reply.statusCode) };
    durationHistogram.observe(labels, reply.elapsedTime / 1000);
    done();
  });
  const routeOptions = {
    config: { operational: true },
    schema: { hide: true },
    logLevel: 'warn',
  } as const;
  const isAuthorized = createBearerCheck(token);
  app.get('/metrics', routeOptions, async (request, reply) => {
    if (!isAuthorized(request.headers.authorization)) {
      throw commonProblem('metrics_token_needed', { headers: { 'www-authenticate': 'Bearer' } });
    }
    return reply.type(registry.contentType).send(await registry.metrics());
  });
}

/** Creates a check of bearer tokens (RFC 6750 §2.1). Compares hashes to hide the token length. */
function createBearerCheck(token: string): (authorization: string | undefined) => boolean {
  if (token === '') return () => true;
  const expectedHash = hash('sha256', token);
  return (authorization = '') => {
    const receivedToken = /^Bearer +(\S+)$/i.exec(authorization)?.[1] ?? '';
    return isSameSecret(hash('sha256', receivedToken), expectedHash);
  };
}
