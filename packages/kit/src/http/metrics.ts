import type { FastifyInstance } from 'fastify';
import { collectDefaultMetrics, Histogram, type Registry } from 'prom-client';

const BUCKETS = [0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];

/** Gauges that prom-client names as counters; they are the sums of others that it makes too. */
const MISNAMED = ['handles', 'requests', 'resources'].map((what) => `nodejs_active_${what}_total`);

/**
 * Measures every request into `http_request_duration_seconds{method,route,status}`, adds the
 * process's own figures, and serves the registry at `GET /metrics`. Contract 4, Metrics.
 */
export function registerHttpMetrics(app: FastifyInstance, registry: Registry): void {
  collectDefaultMetrics({ register: registry });
  for (const name of MISNAMED) registry.removeSingleMetric(name);
  const duration = new Histogram({
    name: 'http_request_duration_seconds',
    help: 'Time from the request to the end of its answer.',
    labelNames: ['method', 'route', 'status'],
    buckets: BUCKETS,
    registers: [registry],
  });
  app.addHook('onResponse', (request, reply, done) => {
    // The route's pattern, not the path: a label for each id would never stop growing.
    const route = request.routeOptions.url ?? 'unknown';
    const labels = { method: request.method, route, status: String(reply.statusCode) };
    duration.observe(labels, reply.elapsedTime / 1000);
    done();
  });
  const options = {
    config: { operational: true },
    schema: { hide: true },
    logLevel: 'warn',
  } as const;
  app.get('/metrics', options, async (_request, reply) =>
    reply.type(registry.contentType).send(await registry.metrics()),
  );
}
